# Completion of pgqrs for bash: sub-commands, their options, and names out of the
# database where it can be reached.

_pgqrs_names() {
	# $1: queue or workflow
	pgqrs queues --format json 2> /dev/null |
		sed -n "s/.*\"queue\":\"\([^\"\\\\]*\)\",\"kind\":\"${1:-[a-z]*}\".*/\1/p"
}

_pgqrs() {
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words=
	local connection='--dbname --host --port --username --help'

	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		words='work step sleep wait-signal wait-any pause child children progress trigger enqueue result signal resume cancel runs run queues dead why replay top report web --help --version'
	else
		case $previous in
			-q | --queue) words=$(_pgqrs_names) ;;
			-f | --format) words='json table' ;;
			-s | --status) words='QUEUED RUNNING PAUSED SUCCESS ERROR CANCELLED' ;;
			--on-parent-end) words='cancel abandon' ;;
			--on-duplicate) words='return raise null' ;;
			-x | --exec)
				compopt -o default
				return
				;;
		esac
		if [ -z "$words" ]; then
			case ${COMP_WORDS[1]} in
				work) words='--queue --exec --concurrency --grace --name --until-empty --verbose' ;;
				step) words='--text --sql --optional --max-attempts --retry-after' ;;
				sleep) words='--until' ;;
				wait-signal) words='--timeout --text' ;;
				wait-any) words='--signal --child --timeout' ;;
				pause) words='--check-after --text' ;;
				child) words='--start --key --delay --priority --timeout --tags --headers --on-parent-end --text' ;;
				children) words='--priority --timeout --tags --on-parent-end' ;;
				trigger) words='--key --delay --run-at --priority --timeout --tags --headers --on-duplicate --require-worker' ;;
				enqueue) words='--key --delay --run-at --priority --headers --on-duplicate' ;;
				result) words='--wait --timeout --format' ;;
				signal) words='--key --headers' ;;
				runs) words='--status --tags --before --limit --format' ;;
				run | queues | why) words='--format' ;;
				dead) words='--limit --format' ;;
				replay) words='--queue --error-type --limit' ;;
				top) words='--interval --count' ;;
				web) words='--listen --name --actions' ;;
			esac
			words="$words $connection"
			case ${COMP_WORDS[1]},$current in
				*,-*) ;;
				trigger,* | runs,*) words=$(_pgqrs_names workflow) ;;
				enqueue,*) words=$(_pgqrs_names queue) ;;
				dead,* | why,*) words=$(_pgqrs_names) ;;
			esac
		fi
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _pgqrs pgqrs
