
# Behind `ulsock run --` and `ulsock trace --` stands another command line.
function __ulsock_program
    set -l words (commandline -opc) (commandline -ct)
    set -l first (math (contains --index -- -- $words) + 1)
    complete -C "$words[$first..-1]"
end
complete -c ulsock -x -n "__fish_ulsock_using_subcommand run trace; and contains -- -- (commandline -opc)" -a "(__ulsock_program)"
