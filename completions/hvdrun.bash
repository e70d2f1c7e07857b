# bash completion for hvdrun(1).
#
# Completes the options and their values up to the program's name, the program's name, and hands
# what follows to the completion of the program itself where bash-completion is loaded.
# tests/unit/cli holds this list to the table in launcher/cli/option_table.cpp.

_hvdrun_flags='--oversubscribe --ssh-accept-new --stall-check --no-stall-check --report-bindings --dry-run --json -prefix-timestamp
--prefix-output-with-timestamp --verbose --explain -cb --check-build -v --version -h --help'

_hvdrun_options_with_value='-np --num-proc --np -H --hosts --hostfile -hostfile --include --exclude
--nnodes --ranks-per-host --map-by --bind-to --cpus-per-rank --gpu-bind -x --pmix --start-timeout
--max-restarts -p --ssh-port -i --ssh-identity-file --ssh-client --ssh-program --network-interface --network-interfaces
--agent-path --host-timeout --fusion-threshold-mb --cache-capacity
--stall-check-warning-time-seconds --stall-check-shutdown-time-seconds --stdin --label --color --only-rank --output-filename --on-output-error --report
--timeline-filename --kill-signal --grace --exit-timeout --config-file'

# _hvdrun_values OPTION WORD: fills COMPREPLY with the values of the option that begin with WORD.
_hvdrun_values() {
  local words=
  case $1 in
    --bind-to) words='core numa none auto' ;;
    --map-by) words='slot node' ;;
    --gpu-bind) words='all single none' ;;
    --pmix) words='auto on off' ;;
    --stdin) words='none all 0' ;;
    --ssh-client) words='auto libssh openssh' ;;
    --label) words='none rank rank@host' ;;
    --color) words='auto always never' ;;
    --only-rank) words='all 0' ;;
    --on-output-error) words='continue stop' ;;
    --kill-signal) words='TERM INT HUP QUIT KILL USR1 USR2' ;;
    --exit-timeout) words='none' ;;
    -H | --hosts) words='localhost' ;;
    -x) mapfile -t COMPREPLY < <(compgen -v -- "$2") && return ;;
    --output-filename) mapfile -t COMPREPLY < <(compgen -d -- "$2") && return ;;
    --include) words='all' ;;
    --exclude) words='none' ;;
    --hostfile | -hostfile | --report | --timeline-filename | --config-file | -i | --ssh-identity-file | --agent-path) mapfile -t COMPREPLY < <(compgen -f -- "$2") && return ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$2")
}

# _hvdrun_takes_value WORD: whether the next word is the value of this one.
_hvdrun_takes_value() {
  local option
  for option in $_hvdrun_options_with_value; do
    [[ $option == "$1" ]] && return 0
  done
  return 1
}

_hvdrun() {
  local at=1 option current=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[1]} == run ]] && at=2

  # Find the program's name, or the option whose value is being typed.
  while [[ $at -lt $COMP_CWORD && ${COMP_WORDS[at]} == -* ]]; do
    if [[ ${COMP_WORDS[at]} == -- ]]; then
      at=$((at + 1))
      break
    fi
    option=${COMP_WORDS[at]}
    at=$((at + 1))
    _hvdrun_takes_value "$option" || continue
    # bash gives "--option=value" as three words.
    [[ ${COMP_WORDS[at]} == "=" ]] && at=$((at + 1))
    if [[ $at -ge $COMP_CWORD ]]; then
      [[ $current == "=" ]] && current=
      _hvdrun_values "$option" "$current"
      return
    fi
    at=$((at + 1))
  done

  if [[ $at -lt $COMP_CWORD ]]; then
    if declare -F _command_offset > /dev/null; then
      _command_offset "$at"
    else
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
  elif [[ $current == -* && ${COMP_WORDS[at - 1]} != -- ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$_hvdrun_flags $_hvdrun_options_with_value" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -c -- "$current"; compgen -f -- "$current")
  fi
}

complete -o filenames -F _hvdrun hvdrun
