#!/bin/sh -e
# What shop.py does, as the command of a worker of the program: pgqrs work --queue order … --exec shop.sh

n=$(cat)

# A transaction is what psql makes of it.
query() {
	psql -X -q -A -t -v ON_ERROR_STOP=1
}

work() {
	echo 'case $(od -A n -N 1 -t u1 /dev/urandom) in *[05]) exit 75 ;; esac; echo 10'
}

case $PGQRS_QUEUE in
	mail)
		echo "SELECT write_and_archive($PGQRS_MESSAGE_ID, $PGQRS_LEASE)" | query > /dev/null
		;;
	leaf)
		echo "SELECT write_and_complete($PGQRS_RUN_ID, $PGQRS_LEASE, 't')" | query > /dev/null
		pgqrs sleep sleep '20 ms'
		echo "$n"
		;;
	order)
		total=0
		i=0
		while [ $i -le $((n % 4)) ]; do
			written=$(echo "SELECT write_and_complete($PGQRS_RUN_ID, $PGQRS_LEASE, 't$i')" | query)
			worked=$(pgqrs step "s$i" -- sh -c "$(work)")
			total=$((total + written + worked))
			i=$((i + 1))
		done
		[ $((n % 2)) = 0 ] || pgqrs sleep sleep '50 ms'
		[ $((n % 3)) != 0 ] || pgqrs wait-signal go --timeout '1 s' > /dev/null || [ $? = 5 ]
		if [ $((n % 5)) = 0 ]; then
			# The program has no sub-command for children: without a result the run waits, and the lease is gone.
			children=$(query <<-SQL
				SELECT count(*) FROM pgqrs_start_children($PGQRS_RUN_ID, $PGQRS_LEASE, 'leaf', 'leaf', '{1,2,3}') \g /dev/null
				SELECT (SELECT sum((child->'output')::int) FROM jsonb_array_elements(results) AS child)
				FROM pgqrs_await_children($PGQRS_RUN_ID, $PGQRS_LEASE, 'leaf') WHERE done
			SQL
			)
			[ -n "$children" ] || exit 79
			total=$((total + children))
		fi
		echo $total
		;;
esac
