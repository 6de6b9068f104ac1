/* What cppcheck has to know of PostgreSQL's macros, whose headers it does not read. */
#define PG_VERSION_NUM 150000
#define PG_FUNCTION_ARGS FunctionCallInfo fcinfo
#define PG_ARGISNULL(n) ((fcinfo)->args[n].isnull)
#define PG_GETARG_DATUM(n) ((fcinfo)->args[n].value)
#define foreach(cell, list) for ((cell) = list_head(list); (cell) != NULL; (cell) = lnext(list, cell))
#define forboth(cell1, list1, cell2, list2) \
	for ((cell1) = list_head(list1), (cell2) = list_head(list2); (cell1) != NULL && (cell2) != NULL; \
		 (cell1) = lnext(list1, cell1), (cell2) = lnext(list2, cell2))
