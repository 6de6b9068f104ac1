/*
 * floor.pml
 *	  The protocol of src/shmem/claim_floor.c, for the model checker spin.
 *
 * "make model" runs it, see test/soak/model/run: each configuration is explored
 * completely and must hold, and each variant, in which one rule of the
 * protocol is left out, must lose a message.
 *
 * The property: no version of a message that is committed, or may become so by
 * the end of a transaction that is running or prepared, lies below the floor;
 * what is below the floor no claim would ever see.  The same of its gaps.  It is
 * looked at whenever a floor is raised, a gap made or a version written, which
 * is all that could break it,
 * and when every transaction has ended.  With AT_REST only the latter: a
 * variant must not merely break the invariant for a moment, it must lose a
 * message for good.
 *
 * Modelled is one queue and priority.  A key is (clock, id), as in the code.
 * A message has the version that is committed and the one that the transaction
 * that holds its lock is making; commit and abort are one step for all
 * messages of a transaction, a snapshot is one step.  What a transaction wrote
 * cannot be seen before, so a write is one step with the reading of the clock
 * for its key.  A lease ends at once, since the smallest keys are the hardest;
 * with DELAYS it may also last.  The clock's readings are unique; an operating
 * system's clock that jumps forward changes nothing, one that is set back is
 * the configuration SET_BACK.
 *
 * Steps of the model and functions of src/shmem/claim_floor.c and published_keys.c:
 *
 *	read_clock			pgqrs_clock()
 *	open, close			open_key() and close_key(), called by
 *						pgqrs_publish_clock()
 *	publish				publish_key(), called by close_key() and, for
 *						pgqrs_floor_foreign_write(), by pgqrs_publish_key().  Which range a key is put
 *						into the model leaves open: any.
 *	write				pgqrs_floor_writer_clock() and the write that follows, by
 *						a backend that enqueues, gives back, extends, moves, replays
 *	remove_some			an archived or deleted message: modified, but no key
 *	direct_some			pgqrs_floor_foreign_write(), the trigger of direct DML
 *	call_begin			pgqrs_floor_call_begin(), read_prepared()
 *	scan_primary		scan_priority() in src/delivery/claim.c, which begins with
 *						pgqrs_floor_scan_begin(): the floor, the clock, and
 *	  read_pending		  read_pending()
 *	  take_snapshot		  pgqrs_scan_begin() in src/store/scan.c
 *	  find_first		  what that scan returns
 *	  choose_gap		  add_gaps(), for any two of its rows or bounds
 *	  claim				  claim_message(): lock or pass over, publish, write
 *	  end_message		  end_found_message(): a message that must not be delivered
 *	  scan_end			  pgqrs_floor_scan_end()
 *						then the same without claim for pgqrs_queue_probe_idle()
 *						in src/delivery/queue_probe.c
 *	dirty				pgqrs_floor_mark_dirty(), called for all but claims
 *	forget				forget_floor(), make_floor() in pgqrs_floor_scan_end()
 *	end_transaction		PostgreSQL, then pgqrs_floor_end()
 *	rollback_to_savepoint	nothing: published and modified stay
 *	prepare				pgqrs_published_pre_prepare(), add_prepared(), then the same
 *	forget_ended_prepared	forget_ended_prepared()
 *	finisher			COMMIT PREPARED or ROLLBACK PREPARED by any backend
 *	restart				a restart or crash, or the start of a standby and its
 *						promotion.  Running transactions are gone as if aborted,
 *						so it is enough to restart when none runs.
 *	set_back			next_reading() in pgqrs_clock() when the operating system's
 *						clock was set back by more than it creeps
 *	unknown				a row that came to be below the floor without any report,
 *						as by DML with the trigger disabled
 *	sweep				pgqrs_floor_sweep_run() in src/delivery/floor_sweep.c, pgqrs_floor_sweep_next() and
 *						pgqrs_floor_sweep_found()
 *
 * Not modelled: several queues (a key published for any concerns all),
 * RAISE_AFTER (a scan that does not raise does less), more than one gap (each
 * is right or wrong for itself), memory that is not sequentially consistent.
 * For the latter each of these must be followed by a full barrier, and is:
 * opening before the clock is read for a key; reading the clock before pending
 * is read; reading pending before the snapshot.  And of what is written first
 * the rest must be read first: opening before the ranges, these before what is
 * recorded.
 *
 * Variants.  A to M are rules of docs/design/floor-protocol.md; N, O, Q (on machines that
 * reorder loads), T and AA were faults of the code:
 *
 *	A	nothing is published
 *	B	the key is read before something is published
 *	C	withdrawn before the end of the transaction is visible
 *	D	pending is read after the snapshot
 *	E	pending is ignored
 *	F	claims publish nothing
 *		(a claim's key is later than the one before, so that this loses a
 *		message only when the clock is set back meanwhile)
 *	G	the floor is raised past the scanner's own claim
 *	H	a call raises the floor after the transaction has modified messages
 *	I	the clock's readings are not unique
 *	J	the snapshot is that of the transaction
 *	K	what was prepared before a restart is forgotten
 *	L	direct DML only lowers the floor
 *	M	a sweep leaves the generation as it is
 *	N	direct DML publishes its key though that is later than the clock
 *		(and what else its transaction writes is not published any more)
 *	O	the epoch of what is published is read after the clock
 *	P	what is recorded is read, and forgotten, after the snapshot
 *	Q	what is recorded is read before what is published
 *	R	a prepared transaction's key is withdrawn before it is recorded
 *	S	rolling back to a savepoint withdraws what is published
 *	T	a standby takes it that nothing is prepared for knowledge
 *	U	a floor that is forgotten does not count on
 *	V	a gap is made of what is pending
 *	W	further keys of a transaction are published after they are read
 *	X	direct DML leaves the gap that its key is in
 *	Y	what is about to be published is read after what is
 *	Z	an opening ends before its key is published
 *	AA	a call raises the floor after it has ended messages
 */

/* Configuration, overridden by -D */
#ifndef MESSAGES
#define MESSAGES 2	/* at most 3 */
#endif
#ifndef INITIAL
#define INITIAL 1	/* of them may be there from the start */
#endif
#ifndef WRITERS
#define WRITERS 0
#endif
#ifndef CLAIMERS
#define CLAIMERS 0
#endif
#ifndef DIRECTS
#define DIRECTS 0
#endif
#ifndef PREPARERS
#define PREPARERS 0	/* at most 1 */
#endif
#ifndef CALLS
#define CALLS 1		/* in one transaction, at most */
#endif
#ifndef CLAIMER_CALLS
#define CLAIMER_CALLS CALLS
#endif
#ifndef CLAIMER_TRANSACTIONS
#define CLAIMER_TRANSACTIONS 1
#endif
#ifndef CLAIMER_KINDS
#define CLAIMER_KINDS SCAN
#endif
#ifndef WRITER_TRANSACTIONS
#define WRITER_TRANSACTIONS 1
#endif
#ifndef WRITER_KINDS
#define WRITER_KINDS WRITE
#endif

/*
 * GAPS: scans make gaps.  ENDS: a claim may end the message, and the call then
 * probes the queue.  FINE: opening and ranges are read and written one
 * after the other, not in one step.
 */
#ifndef RANGES
#define RANGES 1	/* of keys, that a transaction publishes; at most 2 */
#endif

#define BACKENDS (WRITERS + CLAIMERS + DIRECTS + PREPARERS)

#if PREPARERS
#define PENDING (BACKENDS * RANGES + 1)
#else
#define PENDING (BACKENDS * RANGES)
#endif

/* Kinds of calls */
#define WRITE 1
#define SCAN 2
#define REMOVE 4
#define DIRECT 8

/* Keys.  0 is below all. */
#define KEY(clock, id) ((clock) * 4 + (id))
#define NO_LIMIT 63
#define CLOCK(key) ((key) / 4)

/* The clock.  Readings below START are there for after it was set back. */
#ifndef EARLY
#define EARLY 1	/* of direct DML; 22 is between what is there and START */
#endif
#define SET_BACK_TO 2
#define INITIALLY 20
#define START 24
#define LATER 48		/* no reading gets there */
#define DELAY 18		/* nor to START + DELAY */

/* PostgreSQL */
byte committed[MESSAGES];	/* key of the committed version, 0: none */
byte made[MESSAGES];		/* of the version that is being made, 0: deleted */
byte locked[MESSAGES];		/* the backend that locks it + 1; 0: none */

/* Shared memory */
byte clock = START;
byte opening[BACKENDS];		/* a reading, 0: nothing is about to be published */
byte range_from[BACKENDS * RANGES];	/* readings, 0: nothing */
byte range_to[BACKENDS * RANGES];
byte floor;
byte gap_from;				/* readings, both excluded */
byte gap_to;
byte generation;
#ifdef FORGETS
bool has_floor = true;
#endif

byte ended;

#if PREPARERS
#define PREPARER (BACKENDS - 1)
#define LOWEST 1			/* a recorded reading below all */
bool in_progress;			/* the preparer's xid */
bool prepared;				/* listed in pg_prepared_xacts */
byte recorded;				/* a reading, 0: nothing, */
byte recorded_to;				/* to another */
bool prepared_known = true;
byte busy;					/* transactions that are running */
bool recovering;			/* a standby: lists and writes nothing */
#endif

#ifdef SET_BACK
byte epoch;
byte floor_epoch;
byte published_epoch[BACKENDS];
#define EFFECTIVE_FLOOR (floor_epoch == epoch -> floor : 0)
#define EFFECTIVE_GAP (floor_epoch == epoch -> gap_to : 0)
#else
#define EFFECTIVE_FLOOR floor
#define EFFECTIVE_GAP gap_to
#endif
#define IN_GAP(key) (CLOCK(key) > gap_from && CLOCK(key) < EFFECTIVE_GAP)

#ifdef SWEEP
bool unknown_row[MESSAGES];	/* may be below the floor until the sweep finds it */
#define EXEMPT(m) unknown_row[m]
#else
#define EXEMPT(m) false
#endif

hidden byte x;	/* within one step */
hidden byte to;
hidden byte least;

#define MINE(m) (locked[m] == me + 1)

/*
 * The property; within a step
 */

inline check()
{
	for (x : 0 .. MESSAGES - 1) {
		assert(committed[x] == 0 || EXEMPT(x) ||
			(committed[x] >= EFFECTIVE_FLOOR && !IN_GAP(committed[x])));
		assert(made[x] == 0 || EXEMPT(x) ||
			(made[x] >= EFFECTIVE_FLOOR && !IN_GAP(made[x])))
	}
	x = 0
}

inline check_step()
{
#ifdef AT_REST
	skip
#else
	check()
#endif
}

/*
 * Clock and writing
 */

inline read_clock(result)
{
#ifdef VARIANT_I
	if
	:: clock++
	:: skip
	fi;
#else
	clock++;
#endif
	result = clock
}

/* Before the first thing that a transaction publishes. */
inline begin_publishing()
{
	if
	:: last_reading == 0 ->
#if defined(SET_BACK) && !defined(VARIANT_O)
		published_epoch[me] = epoch;
#endif
		atomic { read_clock(last_reading) }
#if defined(SET_BACK) && defined(VARIANT_O)
		published_epoch[me] = epoch;
#endif
	:: else
	fi
}

inline extend(i, at)
{
	if
	:: range_from[i] == 0 -> range_from[i] = at; range_to[i] = at
	:: range_from[i] != 0 && at < range_from[i] -> range_from[i] = at
	:: range_from[i] != 0 && at > range_to[i] -> range_to[i] = at
	:: else
	fi
}

/* Into any of the ranges. */
inline publish(at)
{
#ifdef VARIANT_A
	skip
#elif RANGES == 1
	extend(me, at)
#else
	atomic {
		if
		:: true -> extend(me * 2, at)
		:: true -> extend(me * 2 + 1, at)
		fi
	}
#endif
}

/* A key is about to be read from the clock. */
inline open()
{
#ifdef VARIANT_A
	skip
#elif defined(VARIANT_W)
	if
	:: last_reading == 0 ->
		begin_publishing();
		opening[me] = last_reading
	:: else
	fi
#else
	begin_publishing();
	opening[me] = last_reading
#endif
}

/* It is known. */
inline close(at)
{
#if defined(VARIANT_Z)
	opening[me] = 0;
	atomic { publish(at) }
#elif defined(FINE) || RANGES > 1
	atomic { publish(at) }
	opening[me] = 0
#else
	d_step {
		publish(at);
		opening[me] = 0
	}
#endif
}

/* Takes a message that no other backend has; within a step. */
inline lock(m)
{
	if
	:: locked[m] == 0 ->
		locked[m] = me + 1;
		made[m] = committed[m]
	:: else
	fi
}

/* The new version of a message that is locked. */
inline write(m)
{
	modified = true;
#ifdef VARIANT_B
	atomic { read_clock(reading) }
	begin_publishing();
	atomic { publish(reading) }
	d_step {
		made[m] = KEY(reading, m + 1);
		check_step();
		reading = 0
	}
#else
#if defined(VARIANT_F)
	if
	:: may_raise || first != 0
	:: else -> open()
	fi;
#elif defined(VARIANT_N)
	if
	:: range_from[me] != 0
	:: else -> open()
	fi;
#else
	open();
#endif
	atomic {
		read_clock(reading);
#ifdef DELAYS
		if
		:: delay = DELAY
		:: skip
		fi;
#endif
		made[m] = KEY(reading + delay, m + 1);
		check_step()
	}
#if defined(VARIANT_F) || defined(VARIANT_N)
	if
	:: opening[me] == 0
	:: else -> close(reading + delay)
	fi;
#else
	close(reading + delay);
#endif
	d_step {
		if
		:: last_reading != 0 -> last_reading = reading
		:: else
		fi;
		reading = 0;
		delay = 0
	}
#endif
}

/* Any message that no other backend has; MESSAGES: none. */
inline choose_and_lock()
{
	atomic {
		if
		:: locked[0] == 0 || MINE(0) -> target = 0
#if MESSAGES > 1
		:: locked[1] == 0 || MINE(1) -> target = 1
#endif
#if MESSAGES > 2
		:: locked[2] == 0 || MINE(2) -> target = 2
#endif
		:: else -> target = MESSAGES
		fi;
		if
		:: target < MESSAGES -> lock(target)
		:: else
		fi
	}
}

inline write_some()
{
	choose_and_lock();
	if
	:: target < MESSAGES -> write(target)
	:: else
	fi;
	target = 0
}

inline remove_some()
{
	choose_and_lock();
	d_step {
		if
		:: target < MESSAGES ->
			made[target] = 0;
			modified = true
		:: else
		fi;
		target = 0
	}
}

/*
 * Direct DML
 */

inline direct_some()
{
	choose_and_lock();
	if
	:: target < MESSAGES ->
		modified = true;
		if
		:: key = EARLY
		:: key = LATER
		fi;
#ifdef VARIANT_L
		d_step {
			if
			:: KEY(key, 0) < floor -> floor = KEY(key, 0)
			:: else
			fi
		}
#else
		begin_publishing();
		atomic { publish(key) }
		d_step {
			if
#ifdef FORGETS
			:: !has_floor
#endif
			:: else ->
				if
				:: KEY(key, 0) < floor -> floor = KEY(key, 0)
				:: else
				fi;
#ifndef VARIANT_X
				if
				:: key > gap_from && key < gap_to -> gap_from = 0; gap_to = 0
				:: else
				fi;
#endif
				generation++
			fi
		}
#endif
		d_step {
			made[target] = KEY(key, target + 1);
			check_step();
			key = 0
		}
	:: else
	fi;
	target = 0
}

/*
 * Prepared transactions
 */

#if PREPARERS
/* Within a step: floors_lock is held. */
inline forget_ended_prepared()
{
	if
	:: recorded != 0 && !in_progress -> recorded = 0; recorded_to = 0
	:: else
	fi
}

inline read_prepared()
{
	if
	:: !prepared_known ->
		listed = prepared;
		d_step {
			if
			:: !prepared_known ->
				forget_ended_prepared();
#ifndef VARIANT_K
				if
				:: listed && recorded == 0 -> recorded = LOWEST; recorded_to = NO_LIMIT
				:: else
				fi;
#endif
				prepared_known = true
			:: else
			fi;
			listed = false
		}
	:: else
	fi
}

inline read_prepared_keys()
{
	d_step {
		forget_ended_prepared();
		if
		:: recorded != 0 ->
			pending_from[BACKENDS * RANGES] = recorded;
			pending_to[BACKENDS * RANGES] = recorded_to
		:: else
		fi
	}
}
#endif

/*
 * Scanning
 */

inline call_begin()
{
#ifdef VARIANT_H
	dirty = false;
#else
	dirty = modified;
#endif
#if PREPARERS
	read_prepared()
#endif
}

/* Readings of another epoch cannot be compared. */
#ifdef SET_BACK
#define SAME_EPOCH(i) (published_epoch[i] == scan_epoch)
#else
#define SAME_EPOCH(i) true
#endif

inline read_range(i, j)
{
	if
	:: range_from[j] != 0 ->
		pending_from[j] = (SAME_EPOCH(i) -> range_from[j] : 1);
		pending_to[j] = (SAME_EPOCH(i) -> range_to[j] : NO_LIMIT)
	:: else
	fi
}

/* An opening makes more of a range of the backend, in the model. */
inline read_opening(i)
{
	if
	:: opening[i] != 0 -> opened = (SAME_EPOCH(i) -> opening[i] : 1)
	:: else
	fi
}

inline add_opened(i)
{
	if
	:: opened != 0 ->
		pending_from[i * RANGES] =
			(pending_from[i * RANGES] != 0 && pending_from[i * RANGES] < opened ->
				pending_from[i * RANGES] : opened);
		pending_to[i * RANGES] = NO_LIMIT;
		opened = 0
	:: else
	fi
}

inline read_ranges(i)
{
#if RANGES == 1
	read_range(i, i);
#else
	read_range(i, i * 2);
	read_range(i, i * 2 + 1);
#endif
	add_opened(i)
}

inline read_published(i)
{
#if defined(VARIANT_Y)
	d_step { read_ranges(i) }
	d_step { read_opening(i); add_opened(i) }
#elif defined(FINE)
	d_step { read_opening(i) }
	d_step { read_ranges(i) }
#else
	d_step { read_opening(i); read_ranges(i) }
#endif
}

inline read_pending()
{
	if
	:: may_raise ->
#if PREPARERS && defined(VARIANT_Q)
		read_prepared_keys();
#endif
		read_published(0);
#if BACKENDS > 1
		read_published(1);
#endif
#if BACKENDS > 2
		read_published(2);
#endif
#if BACKENDS > 3
		read_published(3);
#endif
#if PREPARERS && !defined(VARIANT_P) && !defined(VARIANT_Q)
		read_prepared_keys()
#endif
	:: else
	fi
}

/* Every key that is visible, also of what this transaction made. */
inline take_snapshot()
{
	d_step {
		for (x : 0 .. MESSAGES - 1) {
			seen[x] = (MINE(x) -> made[x] : committed[x])
		}
		x = 0
	}
}

/* Leaves of it what the scan returns. */
inline find_first()
{
	d_step {
		first = 0;
		for (x : 0 .. MESSAGES - 1) {
			if
			:: seen[x] < start || seen[x] >= KEY(now + 1, 0) ||
				(CLOCK(seen[x]) > skip_from && CLOCK(seen[x]) < skip_to) -> seen[x] = 0
			:: else
			fi;
			if
			:: seen[x] != 0 && (first == 0 || seen[x] < first) -> first = seen[x]
			:: else
			fi
		}
		x = 0
	}
}

/*
 * From any bound of what is pending, any row or the start to the next of them
 * or the end, but for what is pending.
 */
inline choose_gap()
{
	if
#ifdef GAPS
	:: may_raise ->
		atomic {
			if
			:: new_from = CLOCK(start)
			:: seen[0] != 0 -> new_from = CLOCK(seen[0])
#if MESSAGES > 1
			:: seen[1] != 0 -> new_from = CLOCK(seen[1])
#endif
#if MESSAGES > 2
			:: seen[2] != 0 -> new_from = CLOCK(seen[2])
#endif
			:: pending_to[0] != 0 -> new_from = pending_to[0]
#if PENDING > 1
			:: pending_to[1] != 0 -> new_from = pending_to[1]
#endif
#if PENDING > 2
			:: pending_to[2] != 0 -> new_from = pending_to[2]
#endif
#if PENDING > 3
			:: pending_to[3] != 0 -> new_from = pending_to[3]
#endif
			:: new_from = NO_LIMIT
			fi;
			new_to = now;
			for (x : 0 .. MESSAGES - 1) {
				if
				:: seen[x] != 0 && CLOCK(seen[x]) > new_from && CLOCK(seen[x]) < new_to ->
					new_to = CLOCK(seen[x])
				:: else
				fi
			}
#ifndef VARIANT_V
			for (x : 0 .. PENDING - 1) {
				if
				:: pending_to[x] > new_from && pending_from[x] <= new_from -> new_to = 0
				:: pending_to[x] > new_from && pending_from[x] > new_from &&
					pending_from[x] < new_to -> new_to = pending_from[x]
				:: else
				fi
			}
#endif
			x = 0;
			if
			:: new_to <= new_from + 1 -> new_from = 0; new_to = 0
			:: else
			fi
		}
#endif
	:: else
	fi
}

/* Within a step; the floor has been raised. */
inline add_gap()
{
	if
	:: new_to != 0 ->
		if
		:: gap_to != 0 && gap_from < new_to && new_from < gap_to ->
			gap_from = (gap_from < new_from -> gap_from : new_from);
			gap_to = (gap_to > new_to -> gap_to : new_to)
		:: else ->
			gap_from = new_from;
			gap_to = new_to
		fi
	:: else
	fi;
	if
	:: gap_to <= CLOCK(floor) -> gap_from = 0; gap_to = 0
	:: gap_to > CLOCK(floor) && gap_from < CLOCK(floor) -> gap_from = CLOCK(floor)
	:: else
	fi
}

#ifdef ENDS
/* Its transaction sees at once that it is gone, and may undo that. */
inline end_message(m)
{
	d_step {
		made[m] = 0;
		modified = true;
		probing = true;
#ifndef VARIANT_AA
		dirty = true
#endif
	}
}
#endif

/* Tries one message after the other until it has one. */
inline claim()
{
	do
	:: atomic {
		least = 0;
		for (x : 0 .. MESSAGES - 1) {
			if
			:: seen[x] != 0 && (least == 0 || seen[x] < seen[target]) ->
				target = x;
				least = seen[x]
			:: else
			fi
		}
		x = 0;
		if
		:: least == 0 -> break
		:: least != 0 && ((locked[target] == 0 && committed[target] == least) ||
				(MINE(target) && made[target] == least)) ->
			lock(target);
			claimed = least;
			least = 0;
			break
		:: else ->
			seen[target] = 0;
			target = 0;
			least = 0
		fi
		}
	od;
	if
	:: claimed != 0 -> write(target)
#ifdef ENDS
	:: claimed != 0 -> end_message(target)
#endif
	:: else
	fi;
	target = 0
}

inline scan_end()
{
	d_step {
		to = (first != 0 -> first : KEY(now, 0));
#ifdef VARIANT_G
		if
		:: claimed != 0 && claimed == first ->
			to = KEY(now, 0);
			for (x : 0 .. MESSAGES - 1) {
				if
				:: seen[x] > claimed && seen[x] < to -> to = seen[x]
				:: else
				fi
			}
			x = 0
		:: else
		fi;
#endif
#ifndef VARIANT_E
		for (x : 0 .. PENDING - 1) {
			if
			:: pending_from[x] == 1 -> to = 0
			:: pending_from[x] > 1 && pending_to[x] >= CLOCK(start) &&
				KEY(pending_from[x], 0) < to -> to = KEY(pending_from[x], 0)
			:: else
			fi
		}
		x = 0;
#endif
#ifdef FORGETS
		may_raise = may_raise && has_floor;
		has_floor = true;
#endif
		if
#ifdef SET_BACK
		:: may_raise && scan_generation == generation && scan_epoch == epoch &&
			(floor_epoch != scan_epoch || to > floor || new_to != 0) ->
			if
			:: floor_epoch != scan_epoch -> floor = 0; gap_from = 0; gap_to = 0
			:: else
			fi;
			floor = (to > floor -> to : floor);
			floor_epoch = scan_epoch;
			add_gap();
			check_step()
#else
		:: may_raise && scan_generation == generation && (to > floor || new_to != 0) ->
			floor = (to > floor -> to : floor);
			add_gap();
			check_step()
#endif
		:: else
		fi;
		to = 0;
		first = 0;
		claimed = 0;
		now = 0;
		start = 0;
		skip_from = 0;
		skip_to = 0;
		new_from = 0;
		new_to = 0;
		for (x : 0 .. PENDING - 1) { pending_from[x] = 0; pending_to[x] = 0 }
		x = 0;
		scan_generation = 0;
#ifdef SET_BACK
		scan_epoch = 0;
#endif
#ifndef VARIANT_J
		for (x : 0 .. MESSAGES - 1) { seen[x] = 0 }
		x = 0;
#endif
		may_raise = false
	}
}

/* The whole of a call of pgqrs_dequeue(), as far as floors are concerned. */
inline scan()
{
#ifdef PROMOTION
	if
	:: recovering ->
#ifdef VARIANT_T
		prepared_known = true;
#endif
		skip /* and an error */
	:: else -> scan_primary()
	fi
#else
	scan_primary()
#endif
}

inline scan_primary()
{
	call_begin();
#ifdef ENDS
	scan_queue();
	if
	:: probing -> scan_queue()
	:: else
	fi;
	d_step { dirty = false; probing = false }
#else
	scan_queue();
	dirty = false
#endif
}

inline scan_queue()
{
	may_raise = !dirty;
#ifdef SET_BACK
	scan_epoch = epoch;
	d_step {
		if
		:: floor_epoch == scan_epoch ->
			start = floor;
			skip_from = gap_from;
			skip_to = gap_to
		:: else
		fi;
		scan_generation = generation
	}
#else
	d_step {
		start = floor;
		skip_from = gap_from;
		skip_to = gap_to;
#ifdef FORGETS
		may_raise = may_raise && has_floor;
#endif
		scan_generation = generation
	}
#endif
	atomic { read_clock(now) }
#if defined(VARIANT_D)
	take_snapshot();
	read_pending();
#elif defined(VARIANT_J)
	read_pending();
	d_step { for (x : 0 .. MESSAGES - 1) { seen[x] = snapshot[x] } x = 0 }
#else
	read_pending();
	take_snapshot();
#endif
#if PREPARERS && defined(VARIANT_P)
	if
	:: may_raise -> read_prepared_keys()
	:: else
	fi;
#endif
	find_first();
	choose_gap();
#ifdef ENDS
	if
	:: probing -> skip
	:: else -> claim()
	fi;
#else
	claim();
#endif
	scan_end()
}

/*
 * Transactions
 */

/* Within a step: visible to whatever comes after. */
inline end_visibly(who, commit)
{
	for (x : 0 .. MESSAGES - 1) {
		if
		:: locked[x] == who + 1 ->
			if
			:: commit ->
#ifdef SWEEP
				unknown_row[x] = unknown_row[x] && committed[x] == made[x];
#endif
				committed[x] = made[x]
			:: else
			fi;
			made[x] = 0;
			locked[x] = 0
		:: else
		fi
	}
	x = 0
}

inline withdraw()
{
	d_step {
		opening[me] = 0;
		last_reading = 0;
		for (x : 0 .. RANGES - 1) {
			range_from[me * RANGES + x] = 0;
			range_to[me * RANGES + x] = 0
		}
		x = 0;
#ifdef SET_BACK
		published_epoch[me] = 0;
#endif
		modified = false
	}
}

#ifdef SAVEPOINTS
inline savepoint()
{
	d_step {
		for (x : 0 .. MESSAGES - 1) {
			saved[x] = made[x];
			saved_mine[x] = MINE(x)
		}
		x = 0
	}
}

/* Locks are given up, too; what floor.c remembers stays. */
inline rollback_to_savepoint()
{
	d_step {
		for (x : 0 .. MESSAGES - 1) {
			if
			:: MINE(x) ->
				made[x] = (saved_mine[x] -> saved[x] : 0);
				locked[x] = (saved_mine[x] -> locked[x] : 0)
			:: else
			fi;
			saved[x] = 0;
			saved_mine[x] = false
		}
		x = 0
	}
#ifdef VARIANT_S
	;
	d_step { range_from[me] = 0; range_to[me] = 0; last_reading = 0 }
#endif
}
#endif

inline end_transaction(commit)
{
#ifdef VARIANT_C
	withdraw();
#endif
	d_step {
		end_visibly(me, commit);
#if PREPARERS
		if
		:: me == PREPARER -> in_progress = false
		:: else
		fi
#endif
	}
#ifndef VARIANT_C
	withdraw()
#endif
}

#if PREPARERS
inline prepare()
{
#ifdef VARIANT_R
	withdraw();
	d_step {
		forget_ended_prepared();
		recorded = LOWEST;
		recorded_to = NO_LIMIT
	}
#else
	d_step {
		forget_ended_prepared();
		recorded = range_from[me];
		recorded_to = range_to[me]
	}
#endif
	if
	:: end_transaction(false)
	:: prepared = true;
#ifndef VARIANT_R
		withdraw()
#endif
	fi
}

proctype finisher()
{
end:	prepared;
	if
	:: d_step { end_visibly(PREPARER, true); prepared = false; in_progress = false }
	:: d_step { end_visibly(PREPARER, false); prepared = false; in_progress = false }
	fi
}

proctype restart()
{
	d_step {
		busy == 0;
		floor = 0;
		gap_from = 0;
		gap_to = 0;
		generation = 0;
		recorded = 0;
		recorded_to = 0;
		prepared_known = false;
#ifdef PROMOTION
		recovering = true
#endif
	}
#ifdef PROMOTION
	recovering = false
#endif
}
#endif

proctype backend(byte me; byte kinds; byte calls; byte transactions)
{
	bool modified;
	bool dirty;
#ifdef ENDS
	bool probing;
#endif
	byte reading;
	byte last_reading;
	byte delay;
	byte target;
	byte left;

	/* of a scan */
	bool may_raise;
	byte start;
	byte now;
	byte skip_from;
	byte skip_to;
	byte new_from;
	byte new_to;
	byte opened;
	byte pending_from[PENDING];
	byte pending_to[PENDING];
	byte first;
	byte claimed;
	byte scan_generation;
	byte seen[MESSAGES];
#ifdef SET_BACK
	byte scan_epoch;
#endif
#if DIRECTS
	byte key;
#endif
#if PREPARERS
	bool listed;
#endif
#ifdef VARIANT_J
	byte snapshot[MESSAGES];
#endif
#ifdef SAVEPOINTS
	byte saved[MESSAGES];
	bool saved_mine[MESSAGES];
#endif

	do
	:: transactions > 0 ->
		transactions--;
		left = calls;
#if PREPARERS
		d_step {
			!recovering || !(kinds & WRITE);
			busy++;
			if
			:: me == PREPARER -> in_progress = true
			:: else
			fi
		}
#endif
#ifdef VARIANT_J
		d_step {
			for (x : 0 .. MESSAGES - 1) { snapshot[x] = committed[x] }
			x = 0
		}
#endif
		do
		:: left > 0 ->
			left--;
#ifdef SAVEPOINTS
			savepoint();
#endif
			if
			:: (kinds & WRITE) -> write_some()
			:: (kinds & SCAN) -> scan()
			:: (kinds & REMOVE) -> remove_some()
#if DIRECTS
			:: (kinds & DIRECT) -> direct_some()
#endif
			fi
#ifdef SAVEPOINTS
			;
			if
			:: modified -> rollback_to_savepoint()
			:: skip
			fi
#endif
		:: left < calls -> break
		od;
		left = 0;
		if
		:: modified -> end_transaction(true)
		:: end_transaction(false)
#if PREPARERS
		:: me == PREPARER && modified -> prepare()
#endif
		fi;
#if PREPARERS
		busy--
#endif
	:: else -> break
	od;
	ended++
}

/*
 * Others
 */

#ifdef SET_BACK
proctype set_back()
{
	byte last;

	last = clock;
	epoch++;
	d_step {
		if
		:: clock == last -> clock = SET_BACK_TO
		:: else	/* would try again */
		fi;
		last = 0
	}
}
#endif

#ifdef SWEEP
proctype unknown()
{
	d_step {
		if
		:: committed[MESSAGES - 1] == 0 && locked[MESSAGES - 1] == 0 ->
			committed[MESSAGES - 1] = KEY(EARLY, MESSAGES);
			unknown_row[MESSAGES - 1] = true
		:: else
		fi
	}
}

proctype sweep()
{
	byte below;
	byte above;
	byte before;
	byte found;

	d_step { below = floor; above = gap_from; before = gap_to }
	d_step {
		for (x : 0 .. MESSAGES - 1) {
			if
			:: committed[x] != 0 && (committed[x] < below ||
				(CLOCK(committed[x]) > above && CLOCK(committed[x]) < before)) &&
				(found == 0 || committed[x] < found) -> found = committed[x]
			:: else
			fi
		}
		x = 0;
		below = 0;
		above = 0;
		before = 0
	}
	d_step {
		if
		:: found != 0 && (found < floor || IN_GAP(found)) ->
			if
			:: IN_GAP(found) -> gap_from = 0; gap_to = 0
			:: else
			fi;
			floor = (found < floor -> found : floor);
			for (x : 0 .. MESSAGES - 1) {
				unknown_row[x] = unknown_row[x] &&
					(committed[x] < floor || IN_GAP(committed[x]))
			}
			x = 0;
#ifndef VARIANT_M
			generation++
#endif
		:: else
		fi;
		found = 0
	}
}
#endif

#ifdef FORGETS
proctype forget()
{
	d_step {
		has_floor = false;
		floor = 0;
		gap_from = 0;
		gap_to = 0;
#ifndef VARIANT_U
		generation++
#endif
	}
}
#endif

init
{
	atomic {
		for (x : 0 .. INITIAL - 1) {
			if
			:: committed[x] = KEY(INITIALLY + x, x + 1)
			:: skip
			fi
		}
		for (x : 0 .. WRITERS - 1) {
			run backend(x, WRITER_KINDS, CALLS, WRITER_TRANSACTIONS)
		}
		for (x : WRITERS .. WRITERS + CLAIMERS - 1) {
			run backend(x, CLAIMER_KINDS, CLAIMER_CALLS, CLAIMER_TRANSACTIONS)
		}
		for (x : WRITERS + CLAIMERS .. WRITERS + CLAIMERS + DIRECTS - 1) {
			run backend(x, DIRECT | WRITE, CALLS, 1)
		}
#if PREPARERS
		run backend(PREPARER, WRITE, CALLS, 1);
		run finisher();
		run restart();
#endif
#ifdef SET_BACK
		run set_back();
#endif
#ifdef FORGETS
		run forget();
#endif
#ifdef SWEEP
		run unknown();
		run sweep();
#endif
		x = 0
	}
	ended == BACKENDS;
#if PREPARERS
	!in_progress;
#endif
	d_step { check() }
}
