# Completion of the command accord. Written by `make commands`; do not edit.
_accord_words() {
    local IFS=$' \t\n'
    COMPREPLY+=($(compgen -W "$1" -- "$cur"))
}
_accord_paths() {
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY+=($(compgen "$1" -- "$cur"))
}
_accord() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at=accord i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then
            if ((i + 1 == COMP_CWORD)); then COMPREPLY=($(compgen -c -- "$cur")); else _accord_paths -f; fi
            return
        fi
        case "$at ${COMP_WORDS[i]}" in
        'accord run'|'accord chat'|'accord agent'|'accord agent rules'|'accord agent rules revoke'|'accord serve'|'accord serve token'|'accord serve token new'|'accord serve token list'|'accord serve token revoke'|'accord serve notify'|'accord serve audit'|'accord serve audit verify'|'accord cluster'|'accord cluster status'|'accord cluster check'|'accord cluster rebuild'|'accord cluster expire'|'accord cluster backup'|'accord cluster restore'|'accord cluster drain'|'accord check'|'accord check agent'|'accord check client'|'accord check rules'|'accord trace'|'accord trace record'|'accord trace show'|'accord trace replay'|'accord trace stats'|'accord proxy'|'accord agents'|'accord agents list'|'accord agents show'|'accord agents add'|'accord agents remove'|'accord agents install'|'accord agents update'|'accord agents import'|'accord agents trust'|'accord agents schema'|'accord agents login'|'accord agents logout'|'accord agents setup'|'accord sessions'|'accord sessions list'|'accord sessions search'|'accord sessions show'|'accord sessions export'|'accord sessions fork'|'accord sessions rename'|'accord sessions archive'|'accord sessions unarchive'|'accord sessions delete'|'accord worktrees'|'accord worktrees list'|'accord worktrees remove'|'accord tour'|'accord doctor'|'accord completion') at="$at ${COMP_WORDS[i]}" ;;
        esac
    done
    if [[ $cur == = ]]; then cur=; fi
    if [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
    case "$at $prev" in
        'accord run --file') _accord_paths -f; return ;;
        'accord run --attach') _accord_paths -f; return ;;
        'accord run -a'|'accord run --agent') _accord_words "$(accord completion agents 2>/dev/null)"; return ;;
        'accord run --url') return ;;
        'accord run --env') return ;;
        'accord run --token-file') _accord_paths -f; return ;;
        'accord run --session') return ;;
        'accord run --cwd') _accord_paths -d; return ;;
        'accord run --worktree') return ;;
        'accord run --add-dir') _accord_paths -d; return ;;
        'accord run --model') return ;;
        'accord run --mode') return ;;
        'accord run --permissions') _accord_words 'ask reads all none'; return ;;
        'accord run --format') _accord_words 'text json quiet'; return ;;
        'accord run --output-schema') _accord_paths -f; return ;;
        'accord run --set') return ;;
        'accord run --timeout') return ;;
        'accord run --deadline') return ;;
        'accord run --max-cost') return ;;
        'accord run --max-tokens') return ;;
        'accord run --max-requests') return ;;
        'accord run --max-session-cost') return ;;
        'accord run --max-session-tokens') return ;;
        'accord run --max-session-requests') return ;;
        'accord chat --url') return ;;
        'accord chat --env') return ;;
        'accord chat --token-file') _accord_paths -f; return ;;
        'accord chat --session') return ;;
        'accord chat --cwd') _accord_paths -d; return ;;
        'accord chat --worktree') return ;;
        'accord chat --add-dir') _accord_paths -d; return ;;
        'accord chat --model') return ;;
        'accord chat --mode') return ;;
        'accord chat --permissions') _accord_words 'ask reads all none'; return ;;
        'accord agent --model') return ;;
        'accord agent --mode') return ;;
        'accord agent --resume') return ;;
        'accord agent --store') _accord_paths -f; return ;;
        'accord agent --log') _accord_paths -f; return ;;
        'accord agent --max-cost') return ;;
        'accord agent --max-tokens') return ;;
        'accord agent --max-requests') return ;;
        'accord agent --max-session-cost') return ;;
        'accord agent --max-session-tokens') return ;;
        'accord agent --max-session-requests') return ;;
        'accord agent --login') return ;;
        'accord agent --logout') return ;;
        'accord serve --name') return ;;
        'accord serve --cwd') _accord_paths -d; return ;;
        'accord serve --host') return ;;
        'accord serve --port') return ;;
        'accord serve --host-name') return ;;
        'accord serve --allow-origin') return ;;
        'accord serve --proxy') return ;;
        'accord serve --tls-cert') _accord_paths -f; return ;;
        'accord serve --tls-key') _accord_paths -f; return ;;
        'accord serve --folder') _accord_paths -d; return ;;
        'accord serve --idle') return ;;
        'accord serve --stop-wait') return ;;
        'accord serve --limit') return ;;
        'accord serve --ntfy') return ;;
        'accord serve --webhook') return ;;
        'accord serve --cluster') return ;;
        'accord serve --node') return ;;
        'accord serve --log') _accord_paths -f; return ;;
        'accord serve --log-format') _accord_words 'text json'; return ;;
        'accord serve --log-level') _accord_words 'debug info warning error'; return ;;
        'accord serve token new --name') return ;;
        'accord serve token new --agent') return ;;
        'accord serve token new --folder') _accord_paths -d; return ;;
        'accord serve token new --expires') return ;;
        'accord serve token new --url') return ;;
        'accord serve token new --cluster') return ;;
        'accord serve token list --cluster') return ;;
        'accord serve token revoke --cluster') return ;;
        'accord serve notify --ntfy') return ;;
        'accord serve notify --webhook') return ;;
        'accord serve notify --cluster') return ;;
        'accord serve audit verify --expect') return ;;
        'accord serve audit verify --file') _accord_paths -f; return ;;
        'accord cluster status --cluster') return ;;
        'accord cluster check --cluster') return ;;
        'accord cluster rebuild --cluster') return ;;
        'accord cluster expire --cluster') return ;;
        'accord cluster expire --older') return ;;
        'accord cluster expire --to') _accord_paths -d; return ;;
        'accord cluster backup --cluster') return ;;
        'accord cluster restore --cluster') return ;;
        'accord cluster drain --cluster') return ;;
        'accord cluster drain --wait') return ;;
        'accord check agent --only') return ;;
        'accord check agent --skip') return ;;
        'accord check agent --need') return ;;
        'accord check agent --script') _accord_paths -f; return ;;
        'accord check agent --junit') _accord_paths -f; return ;;
        'accord check agent --html') _accord_paths -f; return ;;
        'accord check agent --env') return ;;
        'accord check agent --slow') return ;;
        'accord check agent --jobs') return ;;
        'accord check client --only') return ;;
        'accord check client --skip') return ;;
        'accord check client --need') return ;;
        'accord check client --script') _accord_paths -f; return ;;
        'accord check client --junit') _accord_paths -f; return ;;
        'accord check client --html') _accord_paths -f; return ;;
        'accord check client --env') return ;;
        'accord check client --slow') return ;;
        'accord check client --jobs') return ;;
        'accord trace record -o'|'accord trace record --output') _accord_paths -f; return ;;
        'accord trace record --env') return ;;
        'accord trace show --run') return ;;
        'accord trace show --method') return ;;
        'accord trace show --session') return ;;
        'accord trace show --from') _accord_words 'client agent stderr'; return ;;
        'accord trace show --since') return ;;
        'accord trace show --until') return ;;
        'accord trace show --width') return ;;
        'accord trace show --html') _accord_paths -f; return ;;
        'accord trace replay --run') return ;;
        'accord trace replay --ignore') return ;;
        'accord trace replay --report') _accord_paths -f; return ;;
        'accord trace replay --speed') return ;;
        'accord trace replay --patience') return ;;
        'accord trace replay --cwd') _accord_paths -d; return ;;
        'accord trace replay --env') return ;;
        'accord trace replay --timeout') return ;;
        'accord trace stats --run') return ;;
        'accord trace stats --method') return ;;
        'accord trace stats --session') return ;;
        'accord trace stats --from') _accord_words 'client agent stderr'; return ;;
        'accord trace stats --since') return ;;
        'accord trace stats --until') return ;;
        'accord proxy --use') return ;;
        'accord proxy -a'|'accord proxy --agent') return ;;
        'accord proxy --env') return ;;
        'accord agents list --cwd') _accord_paths -d; return ;;
        'accord agents list --registry') _accord_paths -f; return ;;
        'accord agents show --cwd') _accord_paths -d; return ;;
        'accord agents add --cwd') _accord_paths -d; return ;;
        'accord agents add --registry') _accord_paths -f; return ;;
        'accord agents add --env') return ;;
        'accord agents add --permissions') return ;;
        'accord agents add --description') return ;;
        'accord agents add --timeout-ms') return ;;
        'accord agents add --startup-timeout-ms') return ;;
        'accord agents add --max-restarts') return ;;
        'accord agents remove --cwd') _accord_paths -d; return ;;
        'accord agents install --registry') return ;;
        'accord agents update --registry') return ;;
        'accord agents import --cwd') _accord_paths -d; return ;;
        'accord agents trust --cwd') _accord_paths -d; return ;;
        'accord agents login --cwd') _accord_paths -d; return ;;
        'accord agents logout --cwd') _accord_paths -d; return ;;
        'accord agents setup --file') _accord_paths -f; return ;;
        'accord agents setup --name') return ;;
        'accord agents setup --plugin') return ;;
        'accord sessions list -a'|'accord sessions list --agent') _accord_words "$(accord completion agents 2>/dev/null)"; return ;;
        'accord sessions list --url') return ;;
        'accord sessions list --token-file') _accord_paths -f; return ;;
        'accord sessions list --cwd') _accord_paths -d; return ;;
        'accord sessions list --env') return ;;
        'accord sessions search --limit') return ;;
        'accord sessions search -a'|'accord sessions search --agent') _accord_words "$(accord completion agents 2>/dev/null)"; return ;;
        'accord sessions search --url') return ;;
        'accord sessions search --token-file') _accord_paths -f; return ;;
        'accord sessions search --cwd') _accord_paths -d; return ;;
        'accord sessions search --env') return ;;
        'accord sessions show -a'|'accord sessions show --agent') _accord_words "$(accord completion agents 2>/dev/null)"; return ;;
        'accord sessions show --url') return ;;
        'accord sessions show --token-file') _accord_paths -f; return ;;
        'accord sessions show --cwd') _accord_paths -d; return ;;
        'accord sessions show --env') return ;;
        'accord sessions export --format') _accord_words 'md json'; return ;;
        'accord sessions export -o'|'accord sessions export --output') _accord_paths -f; return ;;
        'accord sessions export -a'|'accord sessions export --agent') _accord_words "$(accord completion agents 2>/dev/null)"; return ;;
        'accord sessions export --url') return ;;
        'accord sessions export --token-file') _accord_paths -f; return ;;
        'accord sessions export --cwd') _accord_paths -d; return ;;
        'accord sessions export --env') return ;;
        'accord sessions fork -a'|'accord sessions fork --agent') _accord_words "$(accord completion agents 2>/dev/null)"; return ;;
        'accord sessions fork --url') return ;;
        'accord sessions fork --token-file') _accord_paths -f; return ;;
        'accord sessions fork --cwd') _accord_paths -d; return ;;
        'accord sessions fork --env') return ;;
        'accord sessions rename -a'|'accord sessions rename --agent') _accord_words "$(accord completion agents 2>/dev/null)"; return ;;
        'accord sessions rename --url') return ;;
        'accord sessions rename --token-file') _accord_paths -f; return ;;
        'accord sessions rename --cwd') _accord_paths -d; return ;;
        'accord sessions rename --env') return ;;
        'accord sessions archive -a'|'accord sessions archive --agent') _accord_words "$(accord completion agents 2>/dev/null)"; return ;;
        'accord sessions archive --url') return ;;
        'accord sessions archive --token-file') _accord_paths -f; return ;;
        'accord sessions archive --cwd') _accord_paths -d; return ;;
        'accord sessions archive --env') return ;;
        'accord sessions unarchive -a'|'accord sessions unarchive --agent') _accord_words "$(accord completion agents 2>/dev/null)"; return ;;
        'accord sessions unarchive --url') return ;;
        'accord sessions unarchive --token-file') _accord_paths -f; return ;;
        'accord sessions unarchive --cwd') _accord_paths -d; return ;;
        'accord sessions unarchive --env') return ;;
        'accord sessions delete -a'|'accord sessions delete --agent') _accord_words "$(accord completion agents 2>/dev/null)"; return ;;
        'accord sessions delete --url') return ;;
        'accord sessions delete --token-file') _accord_paths -f; return ;;
        'accord sessions delete --cwd') _accord_paths -d; return ;;
        'accord sessions delete --env') return ;;
        'accord worktrees list --cwd') _accord_paths -d; return ;;
        'accord worktrees remove --cwd') _accord_paths -d; return ;;
    esac
    case $at in
        'accord') if [[ $cur == -* ]]; then _accord_words '-h --help -V --version'; else _accord_words 'run chat agent serve cluster check trace proxy agents sessions worktrees tour doctor completion'; fi ;;
        'accord run') if [[ $cur == -* ]]; then _accord_words '-h --help --file --attach -a --agent --url --env --token-file --continue --session --cwd --worktree --add-dir --model --mode --permissions --format --output-schema --set --timeout --deadline --max-cost --max-tokens --max-requests --max-session-cost --max-session-tokens --max-session-requests --retry --steer --trust --stderr --strict'; else :; fi ;;
        'accord chat') if [[ $cur == -* ]]; then _accord_words '-h --help --url --env --token-file --continue --session --cwd --worktree --add-dir --model --mode --permissions --trust'; else _accord_words "$(accord completion agents 2>/dev/null)"; fi ;;
        'accord agent') if [[ $cur == -* ]]; then _accord_words '-h --help --model --mode --resume --store --log --strict --max-cost --max-tokens --max-requests --max-session-cost --max-session-tokens --max-session-requests --login --logout'; else _accord_words 'rules'; fi ;;
        'accord agent rules') if [[ $cur == -* ]]; then _accord_words '-h --help --json'; else _accord_words 'revoke'; fi ;;
        'accord agent rules revoke') if [[ $cur == -* ]]; then _accord_words '-h --help --all'; else :; fi ;;
        'accord serve') if [[ $cur == -* ]]; then _accord_words '-h --help --name --cwd --trust --host --port --host-name --allow-origin --proxy --tls-cert --tls-key --insecure --folder --idle --stop-wait --limit --ntfy --webhook --cluster --node --front --log --log-format --log-level --no-qr'; else _accord_words 'token notify audit'; _accord_words "$(accord completion agents 2>/dev/null)"; fi ;;
        'accord serve token') _accord_words 'new list revoke' ;;
        'accord serve token new') if [[ $cur == -* ]]; then _accord_words '-h --help --name --agent --folder --read-only --allow-mcp --expires --url --no-qr --plain --cluster'; else :; fi ;;
        'accord serve token list') if [[ $cur == -* ]]; then _accord_words '-h --help --json --cluster'; else :; fi ;;
        'accord serve token revoke') if [[ $cur == -* ]]; then _accord_words '-h --help --cluster'; else :; fi ;;
        'accord serve notify') if [[ $cur == -* ]]; then _accord_words '-h --help --ntfy --webhook --cluster'; else :; fi ;;
        'accord serve audit') _accord_words 'verify' ;;
        'accord serve audit verify') if [[ $cur == -* ]]; then _accord_words '-h --help --expect --file'; else :; fi ;;
        'accord cluster') _accord_words 'status check rebuild expire backup restore drain' ;;
        'accord cluster status') if [[ $cur == -* ]]; then _accord_words '-h --help --cluster --json'; else :; fi ;;
        'accord cluster check') if [[ $cur == -* ]]; then _accord_words '-h --help --cluster'; else :; fi ;;
        'accord cluster rebuild') if [[ $cur == -* ]]; then _accord_words '-h --help --cluster'; else :; fi ;;
        'accord cluster expire') if [[ $cur == -* ]]; then _accord_words '-h --help --cluster --older --to'; else :; fi ;;
        'accord cluster backup') if [[ $cur == -* ]]; then _accord_words '-h --help --cluster'; else _accord_paths -d; fi ;;
        'accord cluster restore') if [[ $cur == -* ]]; then _accord_words '-h --help --cluster'; else _accord_paths -d; fi ;;
        'accord cluster drain') if [[ $cur == -* ]]; then _accord_words '-h --help --cluster --undo --wait'; else :; fi ;;
        'accord check') _accord_words 'agent client rules' ;;
        'accord check agent') if [[ $cur == -* ]]; then _accord_words '-h --help --only --skip --need --script --json --junit --html --env --slow --jobs --verbose -v --quiet -q'; else :; fi ;;
        'accord check client') if [[ $cur == -* ]]; then _accord_words '-h --help --only --skip --need --script --json --junit --html --env --slow --jobs --verbose -v --quiet -q'; else :; fi ;;
        'accord check rules') if [[ $cur == -* ]]; then _accord_words '-h --help --json'; else _accord_words 'agent client'; fi ;;
        'accord trace') _accord_words 'record show replay stats' ;;
        'accord trace record') if [[ $cur == -* ]]; then _accord_words '-h --help -o --output --redact --no-redact --env'; else :; fi ;;
        'accord trace show') if [[ $cur == -* ]]; then _accord_words '-h --help --run --method --session --from --since --until --faults --full --follow -f --width --json --html'; else _accord_paths -f; fi ;;
        'accord trace replay') if [[ $cur == -* ]]; then _accord_words '-h --help --run --ignore --report --speed --patience --as-client --cwd --env --timeout'; else _accord_paths -f; fi ;;
        'accord trace stats') if [[ $cur == -* ]]; then _accord_words '-h --help --run --method --session --from --since --until --faults --json'; else _accord_paths -f; fi ;;
        'accord proxy') if [[ $cur == -* ]]; then _accord_words '-h --help --use -a --agent --env --trust'; else :; fi ;;
        'accord agents') _accord_words 'list show add remove install update import trust schema login logout setup' ;;
        'accord agents list') if [[ $cur == -* ]]; then _accord_words '-h --help --cwd --json --registry --trust'; else :; fi ;;
        'accord agents show') if [[ $cur == -* ]]; then _accord_words '-h --help --cwd --json --trust'; else _accord_words "$(accord completion agents 2>/dev/null)"; fi ;;
        'accord agents add') if [[ $cur == -* ]]; then _accord_words '-h --help --cwd --registry --env --permissions --description --timeout-ms --startup-timeout-ms --max-restarts --default --replace --project'; else :; fi ;;
        'accord agents remove') if [[ $cur == -* ]]; then _accord_words '-h --help --cwd --project'; else _accord_words "$(accord completion agents 2>/dev/null)"; fi ;;
        'accord agents install') if [[ $cur == -* ]]; then _accord_words '-h --help --registry --replace --yes'; else :; fi ;;
        'accord agents update') if [[ $cur == -* ]]; then _accord_words '-h --help --registry --yes'; else :; fi ;;
        'accord agents import') if [[ $cur == -* ]]; then _accord_words '-h --help --cwd --dry-run --yes --replace'; else _accord_paths -f; fi ;;
        'accord agents trust') if [[ $cur == -* ]]; then _accord_words '-h --help --cwd --forget'; else :; fi ;;
        'accord agents schema') if [[ $cur == -* ]]; then _accord_words '-h --help'; else :; fi ;;
        'accord agents login') if [[ $cur == -* ]]; then _accord_words '-h --help --cwd --trust'; else _accord_words "$(accord completion agents 2>/dev/null)"; fi ;;
        'accord agents logout') if [[ $cur == -* ]]; then _accord_words '-h --help --cwd --trust'; else _accord_words "$(accord completion agents 2>/dev/null)"; fi ;;
        'accord agents setup') if [[ $cur == -* ]]; then _accord_words '-h --help --write --remove --file --name --plugin'; else :; fi ;;
        'accord sessions') _accord_words 'list search show export fork rename archive unarchive delete' ;;
        'accord sessions list') if [[ $cur == -* ]]; then _accord_words '-h --help --all --archived -a --agent --url --token-file --cwd --recorded --json --env --trust'; else :; fi ;;
        'accord sessions search') if [[ $cur == -* ]]; then _accord_words '-h --help --all --limit -a --agent --url --token-file --cwd --recorded --json --env --trust'; else :; fi ;;
        'accord sessions show') if [[ $cur == -* ]]; then _accord_words '-h --help -a --agent --url --token-file --cwd --recorded --json --env --trust'; else :; fi ;;
        'accord sessions export') if [[ $cur == -* ]]; then _accord_words '-h --help --format -o --output -a --agent --url --token-file --cwd --recorded --json --env --trust'; else :; fi ;;
        'accord sessions fork') if [[ $cur == -* ]]; then _accord_words '-h --help -a --agent --url --token-file --cwd --recorded --json --env --trust'; else :; fi ;;
        'accord sessions rename') if [[ $cur == -* ]]; then _accord_words '-h --help -a --agent --url --token-file --cwd --recorded --json --env --trust'; else :; fi ;;
        'accord sessions archive') if [[ $cur == -* ]]; then _accord_words '-h --help -a --agent --url --token-file --cwd --recorded --json --env --trust'; else :; fi ;;
        'accord sessions unarchive') if [[ $cur == -* ]]; then _accord_words '-h --help -a --agent --url --token-file --cwd --recorded --json --env --trust'; else :; fi ;;
        'accord sessions delete') if [[ $cur == -* ]]; then _accord_words '-h --help -a --agent --url --token-file --cwd --recorded --json --env --trust'; else :; fi ;;
        'accord worktrees') _accord_words 'list remove' ;;
        'accord worktrees list') if [[ $cur == -* ]]; then _accord_words '-h --help --cwd --json'; else :; fi ;;
        'accord worktrees remove') if [[ $cur == -* ]]; then _accord_words '-h --help --save --cwd --json'; else :; fi ;;
        'accord tour') if [[ $cur == -* ]]; then _accord_words '-h --help -y --yes'; else :; fi ;;
        'accord doctor') if [[ $cur == -* ]]; then _accord_words '-h --help --online'; else :; fi ;;
        'accord completion') if [[ $cur == -* ]]; then _accord_words '-h --help'; else _accord_words 'bash zsh fish powershell'; fi ;;
    esac
}
complete -F _accord accord
