# bash completion for hvdrun(1) and horovodrun, which has no subcommands.
#
# Completes subcommands, the options and their values up to the program's name, the program's name,
# and hands what follows to the completion of the program itself where bash-completion is loaded.
# tests/unit/cli holds the lists to the tables in launcher/cli/option_table.cpp and batch_options.cpp.

_hvdrun_commands='run help sbatch salloc templates jobs follow cancel top logs why scale'

_hvdrun_flags='--oversubscribe --horovod --ssh-accept-new --autotune --no-autotune --stall-check --no-stall-check --report-bindings --dry-run --print-env --json -prefix-timestamp
--prefix-output-with-timestamp --verbose --explain -cb --check-build -v -V --version -h --help'

_hvdrun_options_with_value='-np --num-proc --np -H --hosts --hostfile -hostfile --include --exclude --login-node
--nnodes --ranks-per-host --map-by --bind-to --cpus-per-rank --gpu-bind --chdir --working-directory --wdir -x --for --pmix --wrap --start-timeout
--max-restarts --min-np --min-num-proc --reset-timeout --max-np --max-num-proc --spares --replace --elastic-timeout --reset-limit --max-requeues -p --ssh-port -i --ssh-identity-file --ssh-client --ssh-program --network-interface --network-interfaces
--agent-path --host-timeout --fusion-threshold-mb --cache-capacity --autotune-log-file
--stall-check-warning-time-seconds --stall-check-shutdown-time-seconds --stdin --tty --label --color --fold-lines --progress --only-rank --output-filename --on-output-error --report
--metrics --timeline-filename --kill-signal --grace --exit-timeout --quiet-timeout --config-file'

# Of sbatch and salloc, besides those above.
_hvdrun_batch_flags='--requeue --test-only --submit --wait --follow'

_hvdrun_batch_options_with_value='--nodes -N --gpus-per-node --cpus-per-node --time -t --partition -p --account -A
--qos -q --mem --array --dependency --signal --mail --sbatch-arg --job-name -J --output --error --chdir -D
--module --conda --venv --container --template --template-path --set -o --script-file'

# Of scale, besides the first ones.
_hvdrun_scale_flags='--show-output --submit'

_hvdrun_scale_options_with_value='--repeat --devices --drop-epochs --metric --epoch-time --loss --accuracy'

# _hvdrun_template_names WORD: fills COMPREPLY with the templates that begin with WORD.
_hvdrun_template_names() {
  local names
  names=$("${COMP_WORDS[0]}" templates 2> /dev/null | awk 'NR > 1 { print $1 }')
  mapfile -t COMPREPLY < <(compgen -W "$names" -- "$1")
}

# _hvdrun_values OPTION WORD: fills COMPREPLY with the values of the option that begin with WORD.
_hvdrun_values() {
  local words=
  case $1 in
    --bind-to) words='core numa socket none auto' ;;
    --map-by) words='slot node' ;;
    --login-node) words='note allow refuse' ;;
    --gpu-bind) words='all single none' ;;
    --pmix | --fold-lines) words='auto on off' ;;
    --replace) words='auto off' ;;
    --for) words='accelerate jax mlx tensorflow torchrun' ;;
    --stdin) words='none all 0' ;;
    --ssh-client) words='auto libssh openssh' ;;
    --label) words='none rank rank@host' ;;
    --color) words='auto always never' ;;
    --progress) words='auto always never log' ;;
    --only-rank) words='all 0' ;;
    --on-output-error) words='continue stop' ;;
    --kill-signal) words='TERM INT HUP QUIT KILL USR1 USR2' ;;
    --exit-timeout | --quiet-timeout) words='none' ;;
    -H | --hosts) words='localhost' ;;
    -x) mapfile -t COMPREPLY < <(compgen -v -- "$2") && return ;;
    --template) _hvdrun_template_names "$2" && return ;;
    --signal) words='B:USR1@120 B:TERM@120' ;;
    --output-filename | --chdir | --working-directory | --wdir | -D | --venv | --template-path) mapfile -t COMPREPLY < <(compgen -d -- "$2") && return ;;
    --include) words='all' ;;
    --exclude) words='none' ;;
    --hostfile | -hostfile | --report | --metrics | --timeline-filename | --autotune-log-file | --config-file | -i | --ssh-identity-file | --agent-path | --output | --error | --container | -o | --script-file) mapfile -t COMPREPLY < <(compgen -f -- "$2") && return ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$2")
}

# _hvdrun_takes_value WORD OPTIONS: whether the next word is the value of this one.
_hvdrun_takes_value() {
  local option
  for option in $2; do
    [[ $option == "$1" ]] && return 0
  done
  return 1
}

# _hvdrun_words COMMAND CURRENT: what may follow a subcommand that takes no program.
_hvdrun_words() {
  case $1 in
    templates)
      if [[ ${COMP_WORDS[COMP_CWORD - 1]} == show ]]; then
        _hvdrun_template_names "$2"
      elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == --template-path ]]; then
        mapfile -t COMPREPLY < <(compgen -d -- "$2")
      else
        mapfile -t COMPREPLY < <(compgen -W 'show --template-path --help' -- "$2")
      fi
      ;;
    jobs) mapfile -t COMPREPLY < <(compgen -W '--all --here --json --help' -- "$2") ;;
    help) mapfile -t COMPREPLY < <(compgen -W "${_hvdrun_commands#run help } $("${COMP_WORDS[0]}" help topics 2> /dev/null |
      awk '/^$/ { block++ } block == 1 && $1 != "TOPIC" { print $1 }') topics" -- "$2") ;;
    follow) mapfile -t COMPREPLY < <(compgen -W '--no-output --help' -- "$2") ;;
    cancel) mapfile -t COMPREPLY < <(compgen -W '--help' -- "$2") ;;
    top)
      if [[ ${COMP_WORDS[COMP_CWORD - 1]} == --sort ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'rank waiting step samples cpu memory' -- "$2")
      else
        mapfile -t COMPREPLY < <(compgen -W '--once --json --sort --help' -- "$2")
      fi
      ;;
    logs) mapfile -t COMPREPLY < <(compgen -W '--follow --lines --rank --help' -- "$2") ;;
    why) mapfile -t COMPREPLY < <(compgen -W '--json --help' -- "$2") ;;
  esac
}

_hvdrun() {
  local at=1 option current=${COMP_WORDS[COMP_CWORD]}
  local flags=$_hvdrun_flags with_value=$_hvdrun_options_with_value
  COMPREPLY=()
  if [[ $COMP_CWORD -gt 1 && ${1##*/} != horovodrun ]]; then
    case ${COMP_WORDS[1]} in
      run) at=2 ;;
      sbatch | salloc)
        at=2
        flags+=" $_hvdrun_batch_flags"
        with_value+=" $_hvdrun_batch_options_with_value"
        ;;
      scale)
        at=2
        flags+=" $_hvdrun_scale_flags"
        with_value+=" $_hvdrun_scale_options_with_value"
        ;;
    help | templates | jobs | follow | cancel | top | logs | why)
        _hvdrun_words "${COMP_WORDS[1]}" "$current"
        return
        ;;
    esac
  fi

  # Find the program's name, or the option whose value is being typed.
  while [[ $at -lt $COMP_CWORD && ${COMP_WORDS[at]} == -* ]]; do
    if [[ ${COMP_WORDS[at]} == -- ]]; then
      at=$((at + 1))
      break
    fi
    option=${COMP_WORDS[at]}
    at=$((at + 1))
    _hvdrun_takes_value "$option" "$with_value" || continue
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
    mapfile -t COMPREPLY < <(compgen -W "$flags $with_value" -- "$current")
  else
    local commands=
    [[ $at -eq 1 && $COMP_CWORD -eq 1 && ${1##*/} != horovodrun ]] && commands=$_hvdrun_commands
    # Programs may have the names of hvdrun's own words, or be in several folders of PATH.
    mapfile -t COMPREPLY < <({
      compgen -W "$commands" -- "$current"
      compgen -c -- "$current"
      compgen -f -- "$current"
    } | sort -u)
  fi
}

complete -o filenames -F _hvdrun hvdrun horovodrun
