"""Durable workflows and queues in PostgreSQL: the Python client of pgqrs."""
from .app import App, AsyncApp
from .codec import Codec
from .errors import (Cancelled, ChildFailed, Failure, Incompatible, InUse, InvalidInput, InvalidState, InvalidStep,
                     LeaseLost, Leave, MessageNotFound, NotSerializable, NoWorker, OtherNode, Parked, PayloadTooLarge,
                     Permanent, PgqrsError, QueueNotFound, Retry, RunCancelled, RunFailed, RunNotFound, ScheduleInvalid,
                     SignalTimeout, StepFailed, WaitTimeout, WorkerNotFound, WorkerStopped, WorkflowNotFound)
from .run import AsyncContext, Context, Event, Message, Signal, step, transaction
from .worker import VERSION as __version__
from .worker import Worker
from .workflow import Handle, Workflow, workflow

__all__ = [
    'App', 'AsyncApp', 'AsyncContext', 'Cancelled', 'ChildFailed', 'Codec', 'Context', 'Event', 'Failure', 'Handle', 'InUse',
    'Incompatible', 'InvalidInput', 'InvalidState', 'InvalidStep', 'LeaseLost', 'Leave', 'Message', 'MessageNotFound',
    'NoWorker', 'NotSerializable', 'OtherNode', 'Parked', 'PayloadTooLarge', 'Permanent', 'PgqrsError', 'QueueNotFound',
    'Retry', 'RunCancelled', 'RunFailed', 'RunNotFound', 'ScheduleInvalid', 'Signal', 'SignalTimeout', 'StepFailed',
    'WaitTimeout', 'Worker', 'WorkerNotFound', 'WorkerStopped', 'Workflow', 'WorkflowNotFound', '__version__', 'step',
    'transaction', 'workflow']
