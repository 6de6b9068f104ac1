/*
 * scan.h
 *	  Scans and fetches of the extension's rows, without a plan.
 */
#ifndef PGQRS_SCAN_H
#define PGQRS_SCAN_H

#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/sdir.h"
#include "access/skey.h"
#include "storage/buf.h"
#include "store/table.h"

/*
 * A condition on an index column (btree strategy, 1-based column), or on a pair
 * of columns, compared as a row.
 */
typedef struct PgqrsKey
{
	AttrNumber column;
	StrategyNumber strategy;
	Datum value;
	bool is_pair;
	Datum next_value; /* value of the next column */
} PgqrsKey;

#define PGQRS_MAX_KEYS 4

typedef struct PgqrsScan
{
	PgqrsTable *table;
	Relation index;
	Snapshot snapshot;		 /* a row must be visible to this snapshot */
	ScanDirection direction; /* forward, unless the caller changes it */
	IndexScanDesc desc;
	ScanKeyData keys[PGQRS_MAX_KEYS];
	ScanKeyData pair[2]; /* members of the row comparison */
	int nkeys;
	bool by_hand;	  /* the scan checks visibility itself, as under
					   * SERIALIZABLE */
	bool uncommitted; /* rows written by open transactions match, too */
	Buffer map;		  /* last page of the visibility map */
} PgqrsScan;

extern bool pgqrs_row_fetch(PgqrsTable *table, PgqrsIndexId index, int nkeys,
							const Datum *keys, TupleTableSlot *slot);

/* Whether a table has a row of an id, the first column of the index. */
extern bool pgqrs_table_has_row(PgqrsTableId table_id, PgqrsIndexId index, int64 id);
extern bool pgqrs_row_fetch_id(PgqrsTable *table, int64 id, TupleTableSlot *slot);

/* Scans.  slot and keys stay valid until the next call on the same scan. */
extern void pgqrs_scan_begin(PgqrsScan *scan, PgqrsTable *table,
							 PgqrsIndexId index, int nkeys, const PgqrsKey *keys);
extern void pgqrs_scan_begin_table(PgqrsScan *scan, PgqrsTable *table);
extern void pgqrs_scan_raw(PgqrsScan *scan);
extern void pgqrs_scan_uncommitted(PgqrsScan *scan);
extern void pgqrs_scan_set_pair(PgqrsScan *scan, Datum value, Datum next_value);
extern void pgqrs_scan_restart(PgqrsScan *scan, int key, Datum value);

/* Restarts the scan below a smallint value; false: no value is lower. */
extern bool pgqrs_scan_restart_below(PgqrsScan *scan, int key, int16 value);
extern bool pgqrs_scan_next_key(PgqrsScan *scan);
extern Datum pgqrs_scan_key(PgqrsScan *scan, AttrNumber column);
extern bool pgqrs_scan_fetch(PgqrsScan *scan, TupleTableSlot *slot);
extern ItemPointer pgqrs_scan_tid(PgqrsScan *scan);
extern bool pgqrs_scan_fetch_at(PgqrsScan *scan, ItemPointer tid,
								TupleTableSlot *slot);
extern bool pgqrs_scan_visible(PgqrsScan *scan, TupleTableSlot *slot);
extern bool pgqrs_scan_next(PgqrsScan *scan, TupleTableSlot *slot);
extern void pgqrs_scan_end(PgqrsScan *scan);

/* Makes a scan key of a condition on one column. */
extern void pgqrs_scan_key_init(ScanKey key, Relation index, const PgqrsKey *k);

#endif /* PGQRS_SCAN_H */
