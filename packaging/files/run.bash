
# Behind `ulsock run --` and `ulsock trace --` stands another command line, if the package bash-completion can complete it.
_ulsock_or_program() {
    local i
    if [[ ${COMP_WORDS[1]} == @(run|trace) ]] && declare -F _command_offset >/dev/null; then
        for ((i = 2; i < COMP_CWORD; i++)); do
            if [[ ${COMP_WORDS[i]} == -- ]]; then
                _command_offset $((i + 1))
                return
            fi
        done
    fi
    _ulsock "$@"
}
complete -F _ulsock_or_program -o bashdefault -o default ulsock
