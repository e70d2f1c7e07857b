# fish completion for hvdrun(1) and horovodrun.
# Made from the option tables by tests/unit/cli/completion_text.cpp; not edited by hand.

# The options that a value follows.
set -g __hvdrun_valued -np --num-proc --np -H --hosts --hostfile -hostfile --include --exclude --nnodes --ranks-per-host --map-by --login-node --bind-to --cpus-per-rank --gpu-bind --chdir --working-directory --wdir -x --for --pmix --wrap --start-timeout --min-np --min-num-proc --reset-timeout --max-np --max-num-proc --spares --replace --elastic-timeout --reset-limit --max-restarts --max-requeues --stdin --tty -p --ssh-port -i --ssh-identity-file --ssh-client --ssh-program --network-interface --network-interfaces --agent-path --host-timeout --fusion-threshold-mb --cache-capacity --autotune-log-file --stall-check-warning-time-seconds --stall-check-shutdown-time-seconds --label --color --fold-lines --progress --only-rank --output-filename --on-output-error --report --metrics --timeline-filename --kill-signal --grace --exit-timeout --quiet-timeout --config-file
set -g __hvdrun_batch_valued --nodes -N --gpus-per-node --cpus-per-node --time -t --partition -p --account -A --qos -q --mem --array --dependency --signal --mail --sbatch-arg --job-name -J --output --error --chdir -D --module --conda --venv --container --template --template-path --set -o --script-file
set -g __hvdrun_scale_valued --repeat --devices --drop-epochs --metric --epoch-time --loss --accuracy
set -g __hvdrun_commands run help sbatch salloc templates jobs follow cancel top logs why scale

# Prints the words from the program's name on; nothing before there is one.
function __hvdrun_program
    set -l words (commandline -opc)
    set -e words[1]
    if set -q words[1]; and contains -- $words[1] $__hvdrun_commands
        set -e words[1]
    end
    while set -q words[1]
        if test "$words[1]" = --
            set -e words[1]
            break
        else if not string match -q -- '-*' $words[1]
            break
        else if contains -- $words[1] $__hvdrun_valued $__hvdrun_batch_valued $__hvdrun_scale_valued
            set -e words[1]
        end
        set -q words[1]; and set -e words[1]
    end
    string join -- \n $words
end

# Whether a command of hvdrun has been typed, one of the arguments if there are any.
function __hvdrun_has_command
    set -l words (commandline -opc)
    set -q words[2]; or return 1
    contains -- $words[2] $__hvdrun_commands; or return 1
    test (count $argv) -eq 0; or contains -- $words[2] $argv
end

function __hvdrun_is_first
    test (count (commandline -opc)) -eq 1
end

# Whether options may be typed: there is no program yet, and no command without a program.
function __hvdrun_takes_options
    __hvdrun_has_command templates jobs follow cancel top logs why help; and return 1
    test (count (__hvdrun_program)) -eq 0
end

function __hvdrun_takes_batch_options
    __hvdrun_has_command sbatch salloc scale; and __hvdrun_takes_options
end

# Completes the program's own words.
function __hvdrun_complete_program
    set -l words (__hvdrun_program)
    complete -C (string join ' ' -- (string escape -- $words) (commandline -ct))
end

complete -c hvdrun -f
complete -c hvdrun -n '__hvdrun_takes_options' -a '(__fish_complete_command)'
complete -c hvdrun -n '__hvdrun_takes_options' -F
complete -c hvdrun -n 'not __hvdrun_has_command templates jobs follow cancel top logs why help; and test (count (__hvdrun_program)) -gt 0' -a '(__hvdrun_complete_program)'
complete -c hvdrun -n '__hvdrun_has_command templates' -a 'show' -l template-path -l help
complete -c hvdrun -n '__hvdrun_has_command jobs' -l all -l here -l json -l help
complete -c hvdrun -n '__hvdrun_has_command follow' -l no-output -l help
complete -c hvdrun -n '__hvdrun_has_command cancel' -l help
complete -c hvdrun -n '__hvdrun_has_command top' -l once -l json -l help
complete -c hvdrun -n '__hvdrun_has_command top' -l sort -x -a 'rank waiting step samples cpu memory'
complete -c hvdrun -n '__hvdrun_has_command logs' -s f -l follow -l help
complete -c hvdrun -n '__hvdrun_has_command logs' -s n -l lines -l rank -x
complete -c hvdrun -n '__hvdrun_has_command help' -a 'topics (hvdrun help topics 2>/dev/null | awk \'/^$/ { block++ } block == 1 && $1 != "TOPIC" { print $1 }\')'
complete -c hvdrun -n '__hvdrun_has_command why' -l json -l help
complete -c hvdrun -n '__hvdrun_is_first; or __hvdrun_has_command help' -a run -d 'start a program of any name'
complete -c hvdrun -n '__hvdrun_is_first; or __hvdrun_has_command help' -a help -d 'help on a command, or a page of the documents'
complete -c hvdrun -n '__hvdrun_is_first; or __hvdrun_has_command help' -a sbatch -d 'a batch script, or a SLURM job'
complete -c hvdrun -n '__hvdrun_is_first; or __hvdrun_has_command help' -a salloc -d 'an allocation of SLURM, and a program or shell in it'
complete -c hvdrun -n '__hvdrun_is_first; or __hvdrun_has_command help' -a templates -d 'the templates of batch scripts'
complete -c hvdrun -n '__hvdrun_is_first; or __hvdrun_has_command help' -a jobs -d 'your jobs in the queue'
complete -c hvdrun -n '__hvdrun_is_first; or __hvdrun_has_command help' -a follow -d 'show a job\'s state and output'
complete -c hvdrun -n '__hvdrun_is_first; or __hvdrun_has_command help' -a cancel -d 'end jobs'
complete -c hvdrun -n '__hvdrun_is_first; or __hvdrun_has_command help' -a top -d 'what the ranks of a running job do'
complete -c hvdrun -n '__hvdrun_is_first; or __hvdrun_has_command help' -a logs -d 'the last lines of a running job'
complete -c hvdrun -n '__hvdrun_is_first; or __hvdrun_has_command help' -a why -d 'say why a job hangs'
complete -c hvdrun -n '__hvdrun_is_first; or __hvdrun_has_command help' -a scale -d 'a program at several numbers of ranks, compared'
complete -c hvdrun -n '__hvdrun_takes_options' -o np -l num-proc -l np -x -d 'number of ranks; a slot is a GPU, or without GPUs a task or a core'
complete -c hvdrun -n '__hvdrun_takes_options' -s H -l hosts -x -a '(__fish_print_hostnames)' -d 'hosts, and how many ranks each may have'
complete -c hvdrun -n '__hvdrun_takes_options' -l hostfile -o hostfile -r -F -d 'read the hosts from FILE, one per line: n1 slots=4, n2:4 or n[3-8]'
complete -c hvdrun -n '__hvdrun_takes_options' -l include -x -a '(__fish_print_hostnames)' -d 'use only these hosts, such as n[1-4],n7'
complete -c hvdrun -n '__hvdrun_takes_options' -l exclude -x -a '(__fish_print_hostnames)' -d 'do not use these hosts'
complete -c hvdrun -n '__hvdrun_takes_options' -l nnodes -x -d 'use the first N hosts, each with an equal share of the ranks'
complete -c hvdrun -n '__hvdrun_takes_options' -l ranks-per-host -x -d 'number of ranks on each host; 1 is for programs that drive all GPUs themselves'
complete -c hvdrun -n '__hvdrun_takes_options' -l map-by -x -a 'slot node' -d 'fill a host, then go to the next; or deal the ranks out, one to each host in turn'
complete -c hvdrun -n '__hvdrun_takes_options' -l oversubscribe -f -d 'allow more ranks than slots, so that ranks share GPUs'
complete -c hvdrun -n '__hvdrun_takes_options' -l login-node -x -a 'note allow refuse' -d 'on a login node of SLURM without an allocation: a note, nothing, or no start'
complete -c hvdrun -n '__hvdrun_takes_options' -l bind-to -x -a 'core numa socket none auto' -d 'bind each rank to separate cores, to a NUMA node, to a socket, or not at all'
complete -c hvdrun -n '__hvdrun_takes_options' -l cpus-per-rank -x -d 'number of cores for each rank'
complete -c hvdrun -n '__hvdrun_takes_options' -l gpu-bind -x -a 'all single none' -d 'each rank sees all GPUs of its host in order, only its GPU, or what the caller sees'
complete -c hvdrun -n '__hvdrun_takes_options' -l report-bindings -f -d 'print the GPU and the cores of each rank, then run'
complete -c hvdrun -n '__hvdrun_takes_options' -l dry-run -f -d 'print where each rank would run, without starting anything'
complete -c hvdrun -n '__hvdrun_takes_options' -l json -f -d 'print the result of --dry-run as JSON'
complete -c hvdrun -n '__hvdrun_takes_options' -l chdir -l working-directory -l wdir -x -a '(__fish_complete_directories)' -d 'folder in which the ranks run, and where the program is looked for'
complete -c hvdrun -n '__hvdrun_takes_options' -s x -x -a '(set -nx)' -d 'set NAME in the environment of the ranks, or pass it on; may be repeated'
complete -c hvdrun -n '__hvdrun_takes_options' -l for -x -d 'also set the variables that accelerate, jax, mlx, tensorflow or torchrun need; may be repeated'
complete -c hvdrun -n '__hvdrun_takes_options' -l print-env -f -d 'print the variables that rank 0, or that of --only-rank, gets and why, without starting anything'
complete -c hvdrun -n '__hvdrun_takes_options' -l horovod -f -d 'run a Python program written for Horovod: import horovod imports hvd'
complete -c hvdrun -n '__hvdrun_takes_options' -l pmix -x -a 'auto on off' -d 'run a PMIx server for the ranks; auto: if all hosts have libpmix'
complete -c hvdrun -n '__hvdrun_takes_options' -l wrap -x -d 'start each rank, or only RANKS, by a debugger or profiler: COMMAND program arguments; a shell on the rank\'s host expands $RANK in it'
complete -c hvdrun -n '__hvdrun_takes_options' -l start-timeout -x -d 'give up if the job has not started after this time'
complete -c hvdrun -n '__hvdrun_takes_options' -l min-np -l min-num-proc -x -d 'continue without ranks that are lost, as long as M are left: the others stay in their processes; the program must use hvd::elastic or hvd_reform'
complete -c hvdrun -n '__hvdrun_takes_options' -l reset-timeout -x -d 'with --min-np: after a loss, end a rank that does not come within this time; and the job, if no rank has called hvd_init by then'
complete -c hvdrun -n '__hvdrun_takes_options' -l max-np -l max-num-proc -x -d 'with --min-np: begin with a rank for each slot, at most X; -np is then the least that must be there'
complete -c hvdrun -n '__hvdrun_takes_options' -l spares -x -d 'with --min-np: start K more processes in free slots, which wait, and take the place of ranks that are lost'
complete -c hvdrun -n '__hvdrun_takes_options' -l replace -x -a 'auto off' -d 'with --min-np: start a new process in the place of a lost rank; the others take it in when it is ready'
complete -c hvdrun -n '__hvdrun_takes_options' -l elastic-timeout -x -d 'with --replace auto: give up if fewer than M ranks are left, and no new one is ready within this time'
complete -c hvdrun -n '__hvdrun_takes_options' -l reset-limit -x -d 'with --min-np: stop the job instead of repairing it more than N times after losses; taking in new ranks does not count'
complete -c hvdrun -n '__hvdrun_takes_options' -l max-restarts -x -d 'after a failure, restart the whole job on the remaining hosts, at most R times'
complete -c hvdrun -n '__hvdrun_takes_options' -l max-requeues -x -d 'in a SLURM job: if the program stops in good order before its end, on a signal or because its time is nearly up, put the job back into the queue, at most R times'
complete -c hvdrun -n '__hvdrun_takes_options' -l stdin -x -a 'none all last' -d 'which rank reads the standard input of hvdrun'
complete -c hvdrun -n '__hvdrun_takes_options' -l tty -x -d 'give hvdrun\'s terminal to rank RANK, for pdb, gdb and other programs that need one'
complete -c hvdrun -n '__hvdrun_takes_options' -s p -l ssh-port -x -d 'port of the ssh servers; port=N in a hostfile overrides it'
complete -c hvdrun -n '__hvdrun_takes_options' -s i -l ssh-identity-file -r -F -d 'private key to log in with'
complete -c hvdrun -n '__hvdrun_takes_options' -l ssh-accept-new -f -d 'accept the key of an unknown host, but never a key that has changed'
complete -c hvdrun -n '__hvdrun_takes_options' -l ssh-client -x -a 'auto libssh openssh' -d 'log in with libssh inside hvdrun or with the system\'s ssh; auto: libssh, or else ssh'
complete -c hvdrun -n '__hvdrun_takes_options' -l ssh-program -x -d 'program to start instead of ssh or libssh; it gets ssh\'s options'
complete -c hvdrun -n '__hvdrun_takes_options' -l network-interface -l network-interfaces -x -d 'network for the agents of a SLURM job, and for the ranks: libhvd, NCCL, Gloo, Open MPI'
complete -c hvdrun -n '__hvdrun_takes_options' -l agent-path -r -F -d 'where hvdrun is on the other hosts'
complete -c hvdrun -n '__hvdrun_takes_options' -l host-timeout -x -d 'stop the job if a host does not answer for this long'
complete -c hvdrun -n '__hvdrun_takes_options' -l fusion-threshold-mb -x -d 'megabytes of small tensors that libhvd combines in one collective; 0 disables it'
complete -c hvdrun -n '__hvdrun_takes_options' -l cache-capacity -x -d 'number of tensor names that libhvd remembers from step to step; 0 disables it'
complete -c hvdrun -n '__hvdrun_takes_options' -l autotune -f -d 'let libhvd search for faster limits of fusion, for at most 10 s of training'
complete -c hvdrun -n '__hvdrun_takes_options' -l autotune-log-file -r -F -d 'write what --autotune has measured to FILE, on rank 0\'s host'
complete -c hvdrun -n '__hvdrun_takes_options' -l stall-check -f -d 'report which ranks others wait for in a collective; --no-stall-check disables it'
complete -c hvdrun -n '__hvdrun_takes_options' -l stall-check-warning-time-seconds -x -d 'report it after this long; 0 disables the report'
complete -c hvdrun -n '__hvdrun_takes_options' -l stall-check-shutdown-time-seconds -x -d 'fail a collective on all ranks after waiting this long; 0: wait for ever'
complete -c hvdrun -n '__hvdrun_takes_options' -l label -x -a 'none rank rank@host' -d 'text before each line of output; a TEMPLATE is text with {rank}, {host}, {local_rank}, {size}, {time} or {stream}'
complete -c hvdrun -n '__hvdrun_takes_options' -o prefix-timestamp -l prefix-output-with-timestamp -f -d 'print the time, in ms, before each line of output'
complete -c hvdrun -n '__hvdrun_takes_options' -l color -x -a 'auto always never' -d 'colour the labels by rank, and the words error and warning; auto: on a terminal'
complete -c hvdrun -n '__hvdrun_takes_options' -l fold-lines -x -a 'auto on off' -d 'print lines that several ranks print at about the same time once; auto: failures, and from 16 ranks on all lines on a terminal and in a batch job\'s log'
complete -c hvdrun -n '__hvdrun_takes_options' -l progress -x -a 'auto always never log' -d 'show how far a training is on a line at the bottom of the terminal, or print it every minute (log)'
complete -c hvdrun -n '__hvdrun_takes_options' -l only-rank -x -d 'show only the output of these ranks, such as 0,4-7'
complete -c hvdrun -n '__hvdrun_takes_options' -l output-filename -x -a '(__fish_complete_directories)' -d 'also write the output of each rank to DIR/rank.0007/stdout and stderr'
complete -c hvdrun -n '__hvdrun_takes_options' -l on-output-error -x -a 'continue stop' -d 'what to do with the job if its output cannot be written (a full disk)'
complete -c hvdrun -n '__hvdrun_takes_options' -l report -r -F -d 'write a report to FILE.json: how each rank ended, its times and its memory'
complete -c hvdrun -n '__hvdrun_takes_options' -l metrics -r -F -d 'show the numbers of hvdrun top to Prometheus: in FILE, or at 127.0.0.1:PORT/metrics'
complete -c hvdrun -n '__hvdrun_takes_options' -l timeline-filename -r -F -d 'write to FILE.json what all ranks of a program with libhvd did, and when'
complete -c hvdrun -n '__hvdrun_takes_options' -l kill-signal -x -d 'signal that stops the ranks; if it is given, Ctrl-C sends it without INT before it'
complete -c hvdrun -n '__hvdrun_takes_options' -l grace -x -d 'time from the first signal to KILL; on Ctrl-C, half of it is for INT, half for TERM'
complete -c hvdrun -n '__hvdrun_takes_options' -l exit-timeout -x -a 'none' -d 'stop the job if ranks still run this long after the first succeeded'
complete -c hvdrun -n '__hvdrun_takes_options' -l quiet-timeout -x -a 'none' -d 'stop the job if it prints nothing, calls no collective and uses no processor so long'
complete -c hvdrun -n '__hvdrun_takes_options' -l verbose -f -d 'print more about what hvdrun does; may be repeated'
complete -c hvdrun -n '__hvdrun_takes_options' -l config-file -r -F -d 'read settings from a JSON file, or horovodrun\'s YAML; the command line overrides them'
complete -c hvdrun -n '__hvdrun_takes_options' -l explain -f -d 'print each setting and where it comes from, without starting anything'
complete -c hvdrun -n '__hvdrun_takes_options' -o cb -l check-build -f -d 'print what this hvdrun can do, and which libraries it finds'
complete -c hvdrun -n '__hvdrun_takes_options' -s v -l version -s V -f -d 'print the version and how it was built'
complete -c hvdrun -n '__hvdrun_takes_options' -s h -l help -f -d '-h prints the most used options, --help all'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l nodes -s N -x -d 'number of nodes'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l gpus-per-node -x -d 'number of GPUs that a node has; the job requests one per rank. 0: ranks without GPUs'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l cpus-per-node -x -d 'number of CPUs (as SLURM counts them) that a node has, for its ranks to share'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l time -s t -x -d 'time limit: minutes, H:M:S or D-H:M:S'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l partition -s p -x -d 'partition'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l account -s A -x -d 'account to charge'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l qos -s q -x -d 'quality of service'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l mem -x -d 'memory of each node, such as 64G; 0: all of it'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l array -x -d 'run a job for each index, such as 0-9 or 1,3'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l dependency -x -d 'wait for other jobs, such as afterok:1234'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l signal -x -d 'signal to all ranks before the time limit, such as B:USR1@120'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l requeue -f -d 'put a job that had to stop back into the queue, to continue from its checkpoint, at most --max-restarts times'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l mail -x -d 'mail about the job, by default at its end or failure'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l sbatch-arg -x -d 'another option of sbatch, such as --constraint=v100; may be repeated'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l job-name -s J -x -d 'the job\'s name'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l output -r -F -d 'file for the output; %j is the job\'s id'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l error -r -F -d 'file for the error output'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l chdir -s D -x -a '(__fish_complete_directories)' -d 'folder in which the script runs'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l module -x -d 'environment modules to load, after module purge; may be repeated'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l conda -x -d 'conda environment to activate'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l venv -x -a '(__fish_complete_directories)' -d 'Python virtual environment to activate'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l container -r -F -d 'container image in which the ranks run (apptainer)'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l template -r -F -d 'template of the script; hvdrun templates lists them'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l template-path -x -a '(__fish_complete_directories)' -d 'look for templates here first; may be repeated'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l set -x -d 'a variable of the template; may be repeated'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -s o -l script-file -r -F -d 'write the script to FILE'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l test-only -f -d 'ask SLURM whether the job could start, and when; submit nothing'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l submit -f -d 'submit the script, and print the job\'s id'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l wait -f -d 'submit, wait for the job\'s end, and end with its exit code'
complete -c hvdrun -n '__hvdrun_takes_batch_options' -l follow -f -d 'submit, and show the job\'s state and output until its end; Ctrl-C leaves it running'
complete -c hvdrun -n '__hvdrun_has_command scale; and __hvdrun_takes_options' -l repeat -x -d 'runs of each size'
complete -c hvdrun -n '__hvdrun_has_command scale; and __hvdrun_takes_options' -l devices -x -d 'numbers of GPUs of one process, in place of -np'
complete -c hvdrun -n '__hvdrun_has_command scale; and __hvdrun_takes_options' -l drop-epochs -x -d 'epochs that are left out'
complete -c hvdrun -n '__hvdrun_has_command scale; and __hvdrun_takes_options' -l metric -x -d 'metrics to plot'
complete -c hvdrun -n '__hvdrun_has_command scale; and __hvdrun_takes_options' -l epoch-time -x -d 'pattern of a time in the output'
complete -c hvdrun -n '__hvdrun_has_command scale; and __hvdrun_takes_options' -l loss -x -d 'pattern of a loss in the output'
complete -c hvdrun -n '__hvdrun_has_command scale; and __hvdrun_takes_options' -l accuracy -x -d 'pattern of an accuracy in the output'
complete -c horovodrun -w hvdrun
