export { App, type AppOptions, type ConsumeOptions, type Log, type ScheduleOptions } from './app.js';
export type { Connection, Duration, Queryable } from './database.js';
export {
	Cancelled, ChildFailed, Failure, Incompatible, InUse, InvalidState, InvalidStep, Leave, LeaseLost, MessageNotFound, NotSerializable, NoWorker, OtherNode,
	Parked, PayloadTooLarge, Permanent, PgqrsError, QueueNotFound, Retry, RunCancelled, RunFailed, RunNotFound, ScheduleInvalid, SignalTimeout,
	StepFailed, WaitTimeout, WorkerNotFound, WorkerStopped, WorkflowNotFound, type ErrorObject, type ServerError,
} from './errors.js';
export { Handle, type RunStatus, type SignalOptions } from './handle.js';
export type { Codec, Stored } from './json.js';
export { Message, Queue, type QueueHandler, type QueueOptions, type SendOptions } from './queue.js';
export { Run, type Child, type ChildOptions, type Event, type Signal, type StepContext, type StepOptions, type WaitOptions } from './run.js';
export { Worker, type WorkerOptions } from './worker.js';
export { Workflow, type FlowOptions, type RetryPolicy, type StartOptions, type WorkflowHandler, type WorkflowOptions } from './workflow.js';
