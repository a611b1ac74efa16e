# Completion of the command accord. Written by `make commands`; do not edit.
Register-ArgumentCompleter -Native -CommandName accord -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $commands = [ordered]@{
        'accord' = @{
            'run' = 'run one turn of any agent, for shells, scripts and CI'
            'chat' = 'chat with any agent in the terminal'
            'agent' = 'run the coding agent, ACP on stdio'
            'serve' = 'serve agents to browsers and the network'
            'cluster' = 'show and check the nodes of a cluster'
            'check' = 'test an agent or a client against the protocol'
            'trace' = 'record, show and replay protocol messages'
            'proxy' = 'change messages between a client and an agent'
            'agents' = 'list and configure agents, set up editors'
            'sessions' = 'list, search, show, export, fork and delete sessions'
            'worktrees' = 'list and remove the git worktrees of sessions'
            'tour' = 'see what Accord does, in two minutes and without a key'
            'doctor' = 'check what works on this machine'
            'completion' = 'print the completion script of a shell'
            '-h' = 'list the commands'
            '--help' = 'list the commands'
            '-V' = 'print the version, of Python too, and the installed extras'
            '--version' = 'print the version, of Python too, and the installed extras'
        }
        'accord run' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--file' = 'append a file to the prompt; - means stdin'
            '--attach' = 'attach an image or another file; repeatable'
            '-a' = 'agent from `accord agents list` (default: the configured default, else accord)'
            '--agent' = 'agent from `accord agents list` (default: the configured default, else accord)'
            '--url' = 'address of a remote agent: ws://, wss://, http:// or https://'
            '--env' = 'environment variable for the agent; NAME alone passes your own value on; repeatable'
            '--token-file' = 'file with the token for --url (default: ACCORD_TOKEN)'
            '--continue' = 'continue the newest session of this folder and agent'
            '--session' = 'continue this session'
            '--cwd' = 'folder to work in (default: the current one)'
            '--worktree' = 'work in a git worktree of its own, on the branch accord/NAME'
            '--add-dir' = 'additional folder that the agent may use; repeatable'
            '--model' = 'model to use, one that the agent lists'
            '--mode' = 'mode to use, one that the agent lists'
            '--protocol' = 'protocol version to ask for: 1, 2 or auto'
            '--permissions' = 'what the agent may do: ask (default on a terminal), reads (default without one), all, none'
            '--format' = 'text (default), json (one event per line) or quiet (only the answer)'
            '--output-schema' = 'ask for an answer in JSON that matches the JSON Schema in a file'
            '--set' = 'set another option that the agent lists'
            '--timeout' = 'give up after S seconds without a message (default: 600)'
            '--deadline' = 'stop the turn S seconds after the prompt (default: no limit)'
            '--max-cost' = 'end a turn before its next model request once it has cost this much'
            '--max-tokens' = 'end a turn once it has used this many tokens'
            '--max-requests' = 'end a turn after this many model requests (default: 200)'
            '--max-session-cost' = 'end turns once the session has cost this much'
            '--max-session-tokens' = 'end turns once the session has used this many tokens'
            '--max-session-requests' = 'end turns after this many model requests in the session'
            '--retry' = 'send the prompt again if the agent dies before it did anything'
            '--steer' = 'send each line of stdin to the running turn, for agents that support it'
            '--trust' = 'trust the project''s acp.json, for this run only'
            '--stderr' = 'show what the agent writes to stderr: its log, its tracebacks and its prints'
            '--strict' = 'reject nonstandard messages instead of repairing them'
        }
        'accord chat' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--url' = 'address of a remote agent, for example of `accord serve`'
            '--env' = 'environment variable for the agent; NAME alone passes your own value on; repeatable'
            '--token-file' = 'file with the token for --url (default: ACCORD_TOKEN)'
            '--continue' = 'continue the newest session of this folder and agent'
            '--session' = 'continue this session'
            '--cwd' = 'folder to work in (default: the current one)'
            '--worktree' = 'work in a git worktree of its own, on the branch accord/NAME'
            '--add-dir' = 'additional folder that the agent may use; repeatable'
            '--model' = 'model to use, one that the agent lists'
            '--mode' = 'mode to use, one that the agent lists'
            '--protocol' = 'protocol version to ask for: 1, 2 or auto'
            '--permissions' = 'what the agent may do: ask (default), reads (default without a terminal), all, none'
            '--trust' = 'trust the project''s acp.json, for this run only'
        }
        'accord agent' = @{
            'rules' = ''
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--model' = 'provider:name, a provider alone, or rehearsal'
            '--mode' = 'what the agent may do without asking: read-only, ask, workspace-write, full-access, plan'
            '--resume' = 'continue this session, or the newest of the folder, when the client opens its first session'
            '--store' = 'session store to use instead of the default file'
            '--log' = 'record all protocol messages in this file'
            '--strict' = 'reject nonstandard messages instead of repairing them'
            '--max-cost' = 'end a turn before its next model request once it has cost this much'
            '--max-tokens' = 'end a turn once it has used this many tokens'
            '--max-requests' = 'end a turn after this many model requests (default: 200)'
            '--max-session-cost' = 'end turns once the session has cost this much'
            '--max-session-tokens' = 'end turns once the session has used this many tokens'
            '--max-session-requests' = 'end turns after this many model requests in the session'
            '--login' = 'store the key of a model provider and exit, or add a server as NAME=URL; without a terminal, read the key from stdin'
            '--logout' = 'delete the key of a provider, or all keys, and exit'
        }
        'accord agent rules' = @{
            'revoke' = ''
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--json' = 'print the rules as JSON'
        }
        'accord agent rules revoke' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--all' = 'revoke all rules'
        }
        'accord serve' = @{
            'token' = 'new, list, revoke'
            'notify' = ''
            'audit' = 'verify'
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--name' = 'name of the agent that the command after -- runs (default: its program)'
            '--protocol' = 'protocol version to ask the agents for: 1, 2 or auto'
            '--cwd' = 'folder whose project''s acp.json to use, and of new sessions'
            '--trust' = 'trust the project''s acp.json, for this run only'
            '--host' = 'address to listen on (default: 127.0.0.1)'
            '--port' = 'port to listen on (default: 8765 or the next free one)'
            '--host-name' = 'additional host name of this server; repeatable'
            '--allow-origin' = 'additional origin whose pages may connect'
            '--proxy' = 'reverse proxy whose X-Forwarded headers to trust'
            '--tls-cert' = 'use TLS with this certificate, a PEM file'
            '--tls-key' = 'key of the certificate, a PEM file'
            '--insecure' = 'allow a public address without TLS'
            '--folder' = 'allow sessions only in this folder; repeatable'
            '--idle' = 'stop an agent after this time without work (default: 15)'
            '--stop-wait' = 'how long a stop waits for running turns (default: 30)'
            '--limit' = 'change a limit, such as connections=64; repeatable'
            '--ntfy' = 'send notifications to this ntfy topic; repeatable'
            '--webhook' = 'send signed notifications to this address; repeatable'
            '--cluster' = 'keep sessions on these NATS servers; without a URL, start one'
            '--node' = 'name of this node of the cluster (default: the host name)'
            '--front' = 'serve the agents of other nodes of the cluster, and none of this machine'
            '--log' = 'write the log to this file instead of stderr'
            '--log-format' = 'text (default) or json, one object per line'
            '--log-level' = 'lowest level to log (default: info)'
            '--no-qr' = 'print the link without a QR code'
        }
        'accord serve token' = @{
            'new' = 'create a token and show it once'
            'list' = 'list the tokens and when each was last used'
            'revoke' = 'revoke tokens and close their connections'
        }
        'accord serve token new' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--name' = 'name of the token in lists and the audit log'
            '--agent' = 'allow only this agent; repeatable'
            '--folder' = 'allow only this folder; repeatable'
            '--read-only' = 'allow only to watch sessions'
            '--allow-mcp' = 'allow MCP servers of the client, which run as your user'
            '--expires' = 'lifetime of the token, such as 12h, 30d or 8w'
            '--url' = 'base of the link (default: the running gateway)'
            '--no-qr' = 'print the link without a QR code'
            '--plain' = 'print only the token, for scripts'
            '--cluster' = 'NATS servers of the cluster (default: those of serve.json)'
        }
        'accord serve token list' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--json' = 'print a JSON array with one object per token'
            '--cluster' = 'NATS servers of the cluster (default: those of serve.json)'
        }
        'accord serve token revoke' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cluster' = 'NATS servers of the cluster (default: those of serve.json)'
        }
        'accord serve notify' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--ntfy' = 'send notifications to this ntfy topic; repeatable'
            '--webhook' = 'send signed notifications to this address; repeatable'
            '--cluster' = 'NATS servers of the cluster (default: those of serve.json)'
        }
        'accord serve audit' = @{
            'verify' = 'check the hashes of the audit log and name the first broken line'
        }
        'accord serve audit verify' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--expect' = 'hash that an earlier check printed; must be in the log'
            '--file' = 'log to check (default: the audit log of the gateway)'
        }
        'accord cluster' = @{
            'status' = 'show the nodes, their leases and the streams'
            'check' = 'check replicas, limits and sync_interval; exit code 1 if something is wrong'
            'rebuild' = 'write what the session list lacks, computed from the session logs'
            'expire' = 'export and delete the sessions that were not used for long'
            'backup' = 'save all streams to a new folder'
            'restore' = 'create a cluster from a backup, at servers without one'
            'drain' = 'make a node give its sessions up, before it is stopped'
        }
        'accord cluster status' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cluster' = 'NATS servers (default: those of serve.json)'
            '--json' = 'print one JSON object'
        }
        'accord cluster check' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cluster' = 'NATS servers (default: those of serve.json)'
        }
        'accord cluster rebuild' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cluster' = 'NATS servers (default: those of serve.json)'
        }
        'accord cluster expire' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cluster' = 'NATS servers (default: those of serve.json)'
            '--older' = 'how long a session was not used, such as 180d'
            '--to' = 'folder for the exported sessions, one JSON file each'
        }
        'accord cluster backup' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cluster' = 'NATS servers (default: those of serve.json)'
        }
        'accord cluster restore' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cluster' = 'NATS servers (default: those of serve.json)'
        }
        'accord cluster drain' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cluster' = 'NATS servers (default: those of serve.json)'
            '--undo' = 'let the node take sessions again'
            '--wait' = 'how long to wait for running turns (default: 60)'
        }
        'accord check' = @{
            'agent' = 'test an agent on stdio, which COMMAND starts, or at an address (--protocol 2)'
            'client' = 'test a client; COMMAND starts it, {agent} becomes an agent''s command, {prompt} the prompt'
            'rules' = 'list the rules and how each is tested'
        }
        'accord check agent' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--only' = 'test only these rules: prompt.text-block, 15, 15-20, schema, must, should, stable, or a chapter such as tool-calls; separated by commas'
            '--skip' = 'do not test these rules'
            '--need' = 'count these rules as broken if they could not be tested'
            '--script' = 'prompts that make the agent act; included: accord, plain'
            '--protocol' = 'the version of the protocol (default: 1; 2 is a draft)'
            '--json' = 'print the report as JSON'
            '--junit' = 'also write JUnit XML'
            '--html' = 'also write a self-contained HTML page'
            '--env' = 'environment variable for the agent; NAME alone passes your own value on; repeatable'
            '--slow' = 'multiply all timeouts by X'
            '--jobs' = 'number of cases that run at the same time (default: 4 to 8, one per processor)'
            '--verbose' = 'print a line for every rule'
            '-v' = 'print a line for every rule'
            '--quiet' = 'print only broken rules and the totals'
            '-q' = 'print only broken rules and the totals'
        }
        'accord check client' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--only' = 'test only these rules: prompt.text-block, 15, 15-20, schema, must, should, stable, or a chapter such as tool-calls; separated by commas'
            '--skip' = 'do not test these rules'
            '--need' = 'count these rules as broken if they could not be tested'
            '--script' = 'arguments that make the client act; included: run, none'
            '--protocol' = 'the version of the protocol (default: 1; 2 is a draft)'
            '--json' = 'print the report as JSON'
            '--junit' = 'also write JUnit XML'
            '--html' = 'also write a self-contained HTML page'
            '--env' = 'environment variable for the agent; NAME alone passes your own value on; repeatable'
            '--slow' = 'multiply all timeouts by X'
            '--jobs' = 'number of cases that run at the same time (default: 4 to 8, one per processor)'
            '--verbose' = 'print a line for every rule'
            '-v' = 'print a line for every rule'
            '--quiet' = 'print only broken rules and the totals'
            '-q' = 'print only broken rules and the totals'
        }
        'accord check rules' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--json' = 'print JSON'
            '--protocol' = 'the version of the protocol (default: 1; 2 is a draft)'
        }
        'accord trace' = @{
            'record' = 'run an agent and record all messages; use it as the agent''s command in a client'
            'show' = 'show a recording as a timeline'
            'replay' = 'play the recorded agent to a client or, with --as-client, the recorded client to an agent'
            'stats' = 'count messages and bytes by method, measure responses and turns'
        }
        'accord trace record' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '-o' = 'append to this file; only you can read it'
            '--output' = 'append to this file; only you can read it'
            '--redact' = 'remove secrets from the recording (default)'
            '--no-redact' = 'record everything, including secrets'
            '--env' = 'environment variable for the agent; NAME alone passes your own value on; repeatable'
            '--protocol' = 'protocol version to ask the agent for, for a client of version 1: 1, 2 or auto'
        }
        'accord trace show' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--run' = 'show only the Nth run of the file'
            '--method' = 'show only this method; * and ? are wildcards; repeatable'
            '--session' = 'show only this session: its id, or the beginning or end of it; repeatable'
            '--from' = 'show only messages of this sender; repeatable'
            '--since' = 'show only later messages: seconds of the run, 14:03:27, or a date'
            '--until' = 'show only earlier messages'
            '--faults' = 'show only messages that break a protocol rule'
            '--protocol' = 'protocol version of the messages: 1 or 2 (default: the one that `initialize` agreed on)'
            '--full' = 'print every message in full below its line'
            '--follow' = 'wait for new messages and show them'
            '-f' = 'wait for new messages and show them'
            '--width' = 'cut lines to N characters (0: no limit; default: the terminal)'
            '--json' = 'print one JSON object per line'
            '--html' = 'write a self-contained HTML page instead (-: stdout)'
        }
        'accord trace replay' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--run' = 'replay the Nth run of the file (default: the last)'
            '--ignore' = 'do not compare members of this name; repeatable'
            '--report' = 'also write the differences to this file, as JSON'
            '--speed' = 'as an agent: 1 keeps the recorded pauses, 2 halves them (default: no pauses)'
            '--patience' = 'as an agent: seconds to wait for a recorded message of the client before continuing without it'
            '--as-client' = 'play the recorded client and start COMMAND as the agent'
            '--cwd' = 'as a client: folder for the recorded sessions'
            '--env' = 'environment variable for the agent; NAME alone passes your own value on; repeatable'
            '--timeout' = 'as a client: give up after S seconds without a message (default: 60)'
        }
        'accord trace stats' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--run' = 'show only the Nth run of the file'
            '--method' = 'show only this method; * and ? are wildcards; repeatable'
            '--session' = 'show only this session: its id, or the beginning or end of it; repeatable'
            '--from' = 'show only messages of this sender; repeatable'
            '--since' = 'show only later messages: seconds of the run, 14:03:27, or a date'
            '--until' = 'show only earlier messages'
            '--faults' = 'show only messages that break a protocol rule'
            '--protocol' = 'protocol version of the messages: 1 or 2 (default: the one that `initialize` agreed on)'
            '--json' = 'print one JSON object'
        }
        'accord proxy' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--use' = 'middleware, as package.module:Name or path/to/file.py:Name; repeatable, the first is next to the client'
            '--part' = 'start this proxy, a program with `--in-chain`; repeatable, the first is next to the client'
            '--in-chain' = 'be a part of a chain: the program that starts this proxy connects the agent'
            '-a' = 'configured agent (default: the one of `accord run`)'
            '--agent' = 'configured agent (default: the one of `accord run`)'
            '--env' = 'environment variable for the agent; NAME alone passes your own value on; repeatable'
            '--trust' = 'trust the project''s acp.json, for this run only'
        }
        'accord agents' = @{
            'list' = 'list the configured agents and the known ones'
            'show' = 'show everything about one agent'
            'add' = 'add an agent to acp.json'
            'remove' = 'remove an agent from acp.json'
            'install' = 'install an agent of a registry, pinned by version and checksum'
            'update' = 'install newer versions of installed agents'
            'import' = 'copy agents from the configuration of other tools'
            'trust' = 'review and trust the project''s acp.json'
            'schema' = 'print the JSON Schema of acp.json'
            'login' = 'sign in to an agent'
            'logout' = 'sign out of an agent'
            'setup' = 'configure an editor to run `accord agent`'
        }
        'accord agents list' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cwd' = 'folder whose project''s acp.json to use (default: the current one)'
            '--json' = 'print a JSON array with one object per agent'
            '--registry' = 'list the agents of a registry.json instead'
            '--trust' = 'trust the project''s acp.json, for this run only'
        }
        'accord agents show' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cwd' = 'folder whose project''s acp.json to use (default: the current one)'
            '--json' = 'print a JSON object'
            '--trust' = 'trust the project''s acp.json, for this run only'
        }
        'accord agents add' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cwd' = 'folder whose project''s acp.json to use (default: the current one)'
            '--registry' = 'take the agent from a registry.json or agent.json, version pinned'
            '--env' = 'environment variable of the agent; NAME alone or ${NAME} in VALUE refers to yours; repeatable'
            '--permissions' = 'what the agent may do: ask, reads, all, none'
            '--description' = 'description to show in lists'
            '--timeout-ms' = 'timeout of an ordinary request'
            '--startup-timeout-ms' = 'timeout of the start'
            '--max-restarts' = 'how often to restart the agent'
            '--default' = 'make it the default agent'
            '--replace' = 'replace an agent of the same name'
            '--project' = 'change the project''s acp.json instead of yours'
        }
        'accord agents remove' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cwd' = 'folder whose project''s acp.json to use (default: the current one)'
            '--project' = 'change the project''s acp.json instead of yours'
        }
        'accord agents install' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--registry' = 'the registry''s JSON file (default: the last one)'
            '--replace' = 'replace an agent of the same name'
            '--yes' = 'install without asking'
        }
        'accord agents update' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--registry' = 'the registry''s JSON file (default: the agent''s)'
            '--yes' = 'install without asking'
        }
        'accord agents import' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cwd' = 'folder whose project''s acp.json to use (default: the current one)'
            '--dry-run' = 'only show what would be imported'
            '--yes' = 'import without asking'
            '--replace' = 'replace agents that differ from yours'
        }
        'accord agents trust' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cwd' = 'folder whose project''s acp.json to use (default: the current one)'
            '--forget' = 'stop trusting the file'
        }
        'accord agents schema' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
        }
        'accord agents login' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cwd' = 'folder whose project''s acp.json to use (default: the current one)'
            '--trust' = 'trust the project''s acp.json, for this run only'
        }
        'accord agents logout' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cwd' = 'folder whose project''s acp.json to use (default: the current one)'
            '--trust' = 'trust the project''s acp.json, for this run only'
        }
        'accord agents setup' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--write' = 'merge the entry into the editor''s settings; keeps a backup'
            '--remove' = 'remove the entry from the editor''s settings'
            '--file' = 'settings file, if it is not in its usual place'
            '--name' = 'name of the agent in the editor'
            '--plugin' = 'Neovim plugin: codecompanion, avante, agentic'
        }
        'accord sessions' = @{
            'list' = 'list the sessions of a folder'
            'search' = 'find sessions by what was said in them'
            'show' = 'show one session'
            'export' = 'export one session as Markdown or JSON'
            'fork' = 'copy a session into a new one and print its id'
            'rename' = 'give a session a title'
            'archive' = 'hide sessions from the list'
            'unarchive' = 'show archived sessions in the list again'
            'delete' = 'delete sessions, at the agent and in the local recordings'
        }
        'accord sessions list' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--all' = 'list the sessions of every folder'
            '--archived' = 'list archived sessions, too'
            '-a' = 'agent from `accord agents list` (default: the default agent)'
            '--agent' = 'agent from `accord agents list` (default: the default agent)'
            '--url' = 'address of a remote agent, for example of `accord serve`'
            '--token-file' = 'file with the token for --url (default: ACCORD_TOKEN)'
            '--cwd' = 'folder of the sessions (default: the current one)'
            '--recorded' = 'use only the local recordings; start no agent'
            '--json' = 'print JSON'
            '--env' = 'environment variable for the agent; NAME alone passes your own value on; repeatable'
            '--trust' = 'trust the project''s acp.json, for this run only'
        }
        'accord sessions search' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--all' = 'search the sessions of every folder'
            '--limit' = 'number of sessions (default: 20)'
            '-a' = 'agent from `accord agents list` (default: the default agent)'
            '--agent' = 'agent from `accord agents list` (default: the default agent)'
            '--url' = 'address of a remote agent, for example of `accord serve`'
            '--token-file' = 'file with the token for --url (default: ACCORD_TOKEN)'
            '--cwd' = 'folder of the sessions (default: the current one)'
            '--recorded' = 'use only the local recordings; start no agent'
            '--json' = 'print JSON'
            '--env' = 'environment variable for the agent; NAME alone passes your own value on; repeatable'
            '--trust' = 'trust the project''s acp.json, for this run only'
        }
        'accord sessions show' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '-a' = 'agent from `accord agents list` (default: the default agent)'
            '--agent' = 'agent from `accord agents list` (default: the default agent)'
            '--url' = 'address of a remote agent, for example of `accord serve`'
            '--token-file' = 'file with the token for --url (default: ACCORD_TOKEN)'
            '--cwd' = 'folder of the sessions (default: the current one)'
            '--recorded' = 'use only the local recordings; start no agent'
            '--json' = 'print JSON'
            '--env' = 'environment variable for the agent; NAME alone passes your own value on; repeatable'
            '--trust' = 'trust the project''s acp.json, for this run only'
        }
        'accord sessions export' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--format' = 'md for people (default) or json for programs'
            '-o' = 'file to write (default: stdout)'
            '--output' = 'file to write (default: stdout)'
            '-a' = 'agent from `accord agents list` (default: the default agent)'
            '--agent' = 'agent from `accord agents list` (default: the default agent)'
            '--url' = 'address of a remote agent, for example of `accord serve`'
            '--token-file' = 'file with the token for --url (default: ACCORD_TOKEN)'
            '--cwd' = 'folder of the sessions (default: the current one)'
            '--recorded' = 'use only the local recordings; start no agent'
            '--json' = 'print JSON'
            '--env' = 'environment variable for the agent; NAME alone passes your own value on; repeatable'
            '--trust' = 'trust the project''s acp.json, for this run only'
        }
        'accord sessions fork' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '-a' = 'agent from `accord agents list` (default: the default agent)'
            '--agent' = 'agent from `accord agents list` (default: the default agent)'
            '--url' = 'address of a remote agent, for example of `accord serve`'
            '--token-file' = 'file with the token for --url (default: ACCORD_TOKEN)'
            '--cwd' = 'folder of the sessions (default: the current one)'
            '--recorded' = 'use only the local recordings; start no agent'
            '--json' = 'print JSON'
            '--env' = 'environment variable for the agent; NAME alone passes your own value on; repeatable'
            '--trust' = 'trust the project''s acp.json, for this run only'
        }
        'accord sessions rename' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '-a' = 'agent from `accord agents list` (default: the default agent)'
            '--agent' = 'agent from `accord agents list` (default: the default agent)'
            '--url' = 'address of a remote agent, for example of `accord serve`'
            '--token-file' = 'file with the token for --url (default: ACCORD_TOKEN)'
            '--cwd' = 'folder of the sessions (default: the current one)'
            '--recorded' = 'use only the local recordings; start no agent'
            '--json' = 'print JSON'
            '--env' = 'environment variable for the agent; NAME alone passes your own value on; repeatable'
            '--trust' = 'trust the project''s acp.json, for this run only'
        }
        'accord sessions archive' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '-a' = 'agent from `accord agents list` (default: the default agent)'
            '--agent' = 'agent from `accord agents list` (default: the default agent)'
            '--url' = 'address of a remote agent, for example of `accord serve`'
            '--token-file' = 'file with the token for --url (default: ACCORD_TOKEN)'
            '--cwd' = 'folder of the sessions (default: the current one)'
            '--recorded' = 'use only the local recordings; start no agent'
            '--json' = 'print JSON'
            '--env' = 'environment variable for the agent; NAME alone passes your own value on; repeatable'
            '--trust' = 'trust the project''s acp.json, for this run only'
        }
        'accord sessions unarchive' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '-a' = 'agent from `accord agents list` (default: the default agent)'
            '--agent' = 'agent from `accord agents list` (default: the default agent)'
            '--url' = 'address of a remote agent, for example of `accord serve`'
            '--token-file' = 'file with the token for --url (default: ACCORD_TOKEN)'
            '--cwd' = 'folder of the sessions (default: the current one)'
            '--recorded' = 'use only the local recordings; start no agent'
            '--json' = 'print JSON'
            '--env' = 'environment variable for the agent; NAME alone passes your own value on; repeatable'
            '--trust' = 'trust the project''s acp.json, for this run only'
        }
        'accord sessions delete' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '-a' = 'agent from `accord agents list` (default: the default agent)'
            '--agent' = 'agent from `accord agents list` (default: the default agent)'
            '--url' = 'address of a remote agent, for example of `accord serve`'
            '--token-file' = 'file with the token for --url (default: ACCORD_TOKEN)'
            '--cwd' = 'folder of the sessions (default: the current one)'
            '--recorded' = 'use only the local recordings; start no agent'
            '--json' = 'print JSON'
            '--env' = 'environment variable for the agent; NAME alone passes your own value on; repeatable'
            '--trust' = 'trust the project''s acp.json, for this run only'
        }
        'accord worktrees' = @{
            'list' = 'list worktrees, their state and how to merge them'
            'remove' = 'remove worktrees that have nothing uncommitted'
        }
        'accord worktrees list' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--cwd' = 'folder in the repository (default: the current one)'
            '--json' = 'print JSON'
        }
        'accord worktrees remove' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--save' = 'commit what is not committed to the branch first'
            '--cwd' = 'folder in the repository (default: the current one)'
            '--json' = 'print JSON'
        }
        'accord tour' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '-y' = 'do not wait for Enter; allow the edit'
            '--yes' = 'do not wait for Enter; allow the edit'
        }
        'accord doctor' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
            '--online' = 'also test each key and address with a request to its provider'
        }
        'accord completion' = @{
            '-h' = 'show this help message and exit'
            '--help' = 'show this help message and exit'
        }
    }
    $values = @{
        'accord run --file' = @('<file>')
        'accord run --attach' = @('<file>')
        'accord run -a' = @('<agent>')
        'accord run --agent' = @('<agent>')
        'accord run --url' = @('<>')
        'accord run --env' = @('<>')
        'accord run --token-file' = @('<file>')
        'accord run --session' = @('<>')
        'accord run --cwd' = @('<dir>')
        'accord run --worktree' = @('<>')
        'accord run --add-dir' = @('<dir>')
        'accord run --model' = @('<>')
        'accord run --mode' = @('<>')
        'accord run --protocol' = @('1', '2', 'auto')
        'accord run --permissions' = @('ask', 'reads', 'all', 'none')
        'accord run --format' = @('text', 'json', 'quiet')
        'accord run --output-schema' = @('<file>')
        'accord run --set' = @('<>')
        'accord run --timeout' = @('<>')
        'accord run --deadline' = @('<>')
        'accord run --max-cost' = @('<>')
        'accord run --max-tokens' = @('<>')
        'accord run --max-requests' = @('<>')
        'accord run --max-session-cost' = @('<>')
        'accord run --max-session-tokens' = @('<>')
        'accord run --max-session-requests' = @('<>')
        'accord chat --url' = @('<>')
        'accord chat --env' = @('<>')
        'accord chat --token-file' = @('<file>')
        'accord chat --session' = @('<>')
        'accord chat --cwd' = @('<dir>')
        'accord chat --worktree' = @('<>')
        'accord chat --add-dir' = @('<dir>')
        'accord chat --model' = @('<>')
        'accord chat --mode' = @('<>')
        'accord chat --protocol' = @('1', '2', 'auto')
        'accord chat --permissions' = @('ask', 'reads', 'all', 'none')
        'accord chat' = @('<agent>')
        'accord agent --model' = @('<>')
        'accord agent --mode' = @('<>')
        'accord agent --resume' = @('<>')
        'accord agent --store' = @('<file>')
        'accord agent --log' = @('<file>')
        'accord agent --max-cost' = @('<>')
        'accord agent --max-tokens' = @('<>')
        'accord agent --max-requests' = @('<>')
        'accord agent --max-session-cost' = @('<>')
        'accord agent --max-session-tokens' = @('<>')
        'accord agent --max-session-requests' = @('<>')
        'accord agent --login' = @('<>')
        'accord agent --logout' = @('<>')
        'accord serve --name' = @('<>')
        'accord serve --protocol' = @('1', '2', 'auto')
        'accord serve --cwd' = @('<dir>')
        'accord serve --host' = @('<>')
        'accord serve --port' = @('<>')
        'accord serve --host-name' = @('<>')
        'accord serve --allow-origin' = @('<>')
        'accord serve --proxy' = @('<>')
        'accord serve --tls-cert' = @('<file>')
        'accord serve --tls-key' = @('<file>')
        'accord serve --folder' = @('<dir>')
        'accord serve --idle' = @('<>')
        'accord serve --stop-wait' = @('<>')
        'accord serve --limit' = @('<>')
        'accord serve --ntfy' = @('<>')
        'accord serve --webhook' = @('<>')
        'accord serve --cluster' = @('<>')
        'accord serve --node' = @('<>')
        'accord serve --log' = @('<file>')
        'accord serve --log-format' = @('text', 'json')
        'accord serve --log-level' = @('debug', 'info', 'warning', 'error')
        'accord serve' = @('<agent>')
        'accord serve token new --name' = @('<>')
        'accord serve token new --agent' = @('<>')
        'accord serve token new --folder' = @('<dir>')
        'accord serve token new --expires' = @('<>')
        'accord serve token new --url' = @('<>')
        'accord serve token new --cluster' = @('<>')
        'accord serve token list --cluster' = @('<>')
        'accord serve token revoke --cluster' = @('<>')
        'accord serve notify --ntfy' = @('<>')
        'accord serve notify --webhook' = @('<>')
        'accord serve notify --cluster' = @('<>')
        'accord serve audit verify --expect' = @('<>')
        'accord serve audit verify --file' = @('<file>')
        'accord cluster status --cluster' = @('<>')
        'accord cluster check --cluster' = @('<>')
        'accord cluster rebuild --cluster' = @('<>')
        'accord cluster expire --cluster' = @('<>')
        'accord cluster expire --older' = @('<>')
        'accord cluster expire --to' = @('<dir>')
        'accord cluster backup --cluster' = @('<>')
        'accord cluster backup' = @('<dir>')
        'accord cluster restore --cluster' = @('<>')
        'accord cluster restore' = @('<dir>')
        'accord cluster drain --cluster' = @('<>')
        'accord cluster drain --wait' = @('<>')
        'accord check agent --only' = @('<>')
        'accord check agent --skip' = @('<>')
        'accord check agent --need' = @('<>')
        'accord check agent --script' = @('<file>')
        'accord check agent --protocol' = @('1', '2')
        'accord check agent --junit' = @('<file>')
        'accord check agent --html' = @('<file>')
        'accord check agent --env' = @('<>')
        'accord check agent --slow' = @('<>')
        'accord check agent --jobs' = @('<>')
        'accord check client --only' = @('<>')
        'accord check client --skip' = @('<>')
        'accord check client --need' = @('<>')
        'accord check client --script' = @('<file>')
        'accord check client --protocol' = @('1', '2')
        'accord check client --junit' = @('<file>')
        'accord check client --html' = @('<file>')
        'accord check client --env' = @('<>')
        'accord check client --slow' = @('<>')
        'accord check client --jobs' = @('<>')
        'accord check rules --protocol' = @('1', '2')
        'accord check rules' = @('agent', 'client')
        'accord trace record -o' = @('<file>')
        'accord trace record --output' = @('<file>')
        'accord trace record --env' = @('<>')
        'accord trace record --protocol' = @('1', '2', 'auto')
        'accord trace show --run' = @('<>')
        'accord trace show --method' = @('<>')
        'accord trace show --session' = @('<>')
        'accord trace show --from' = @('client', 'agent', 'stderr')
        'accord trace show --since' = @('<>')
        'accord trace show --until' = @('<>')
        'accord trace show --protocol' = @('1', '2')
        'accord trace show --width' = @('<>')
        'accord trace show --html' = @('<file>')
        'accord trace show' = @('<file>')
        'accord trace replay --run' = @('<>')
        'accord trace replay --ignore' = @('<>')
        'accord trace replay --report' = @('<file>')
        'accord trace replay --speed' = @('<>')
        'accord trace replay --patience' = @('<>')
        'accord trace replay --cwd' = @('<dir>')
        'accord trace replay --env' = @('<>')
        'accord trace replay --timeout' = @('<>')
        'accord trace replay' = @('<file>')
        'accord trace stats --run' = @('<>')
        'accord trace stats --method' = @('<>')
        'accord trace stats --session' = @('<>')
        'accord trace stats --from' = @('client', 'agent', 'stderr')
        'accord trace stats --since' = @('<>')
        'accord trace stats --until' = @('<>')
        'accord trace stats --protocol' = @('1', '2')
        'accord trace stats' = @('<file>')
        'accord proxy --use' = @('<>')
        'accord proxy --part' = @('<>')
        'accord proxy -a' = @('<>')
        'accord proxy --agent' = @('<>')
        'accord proxy --env' = @('<>')
        'accord agents list --cwd' = @('<dir>')
        'accord agents list --registry' = @('<file>')
        'accord agents show --cwd' = @('<dir>')
        'accord agents show' = @('<agent>')
        'accord agents add --cwd' = @('<dir>')
        'accord agents add --registry' = @('<file>')
        'accord agents add --env' = @('<>')
        'accord agents add --permissions' = @('<>')
        'accord agents add --description' = @('<>')
        'accord agents add --timeout-ms' = @('<>')
        'accord agents add --startup-timeout-ms' = @('<>')
        'accord agents add --max-restarts' = @('<>')
        'accord agents remove --cwd' = @('<dir>')
        'accord agents remove' = @('<agent>')
        'accord agents install --registry' = @('<>')
        'accord agents update --registry' = @('<>')
        'accord agents import --cwd' = @('<dir>')
        'accord agents import' = @('<file>')
        'accord agents trust --cwd' = @('<dir>')
        'accord agents login --cwd' = @('<dir>')
        'accord agents login' = @('<agent>')
        'accord agents logout --cwd' = @('<dir>')
        'accord agents logout' = @('<agent>')
        'accord agents setup --file' = @('<file>')
        'accord agents setup --name' = @('<>')
        'accord agents setup --plugin' = @('<>')
        'accord sessions list -a' = @('<agent>')
        'accord sessions list --agent' = @('<agent>')
        'accord sessions list --url' = @('<>')
        'accord sessions list --token-file' = @('<file>')
        'accord sessions list --cwd' = @('<dir>')
        'accord sessions list --env' = @('<>')
        'accord sessions search --limit' = @('<>')
        'accord sessions search -a' = @('<agent>')
        'accord sessions search --agent' = @('<agent>')
        'accord sessions search --url' = @('<>')
        'accord sessions search --token-file' = @('<file>')
        'accord sessions search --cwd' = @('<dir>')
        'accord sessions search --env' = @('<>')
        'accord sessions show -a' = @('<agent>')
        'accord sessions show --agent' = @('<agent>')
        'accord sessions show --url' = @('<>')
        'accord sessions show --token-file' = @('<file>')
        'accord sessions show --cwd' = @('<dir>')
        'accord sessions show --env' = @('<>')
        'accord sessions export --format' = @('md', 'json')
        'accord sessions export -o' = @('<file>')
        'accord sessions export --output' = @('<file>')
        'accord sessions export -a' = @('<agent>')
        'accord sessions export --agent' = @('<agent>')
        'accord sessions export --url' = @('<>')
        'accord sessions export --token-file' = @('<file>')
        'accord sessions export --cwd' = @('<dir>')
        'accord sessions export --env' = @('<>')
        'accord sessions fork -a' = @('<agent>')
        'accord sessions fork --agent' = @('<agent>')
        'accord sessions fork --url' = @('<>')
        'accord sessions fork --token-file' = @('<file>')
        'accord sessions fork --cwd' = @('<dir>')
        'accord sessions fork --env' = @('<>')
        'accord sessions rename -a' = @('<agent>')
        'accord sessions rename --agent' = @('<agent>')
        'accord sessions rename --url' = @('<>')
        'accord sessions rename --token-file' = @('<file>')
        'accord sessions rename --cwd' = @('<dir>')
        'accord sessions rename --env' = @('<>')
        'accord sessions archive -a' = @('<agent>')
        'accord sessions archive --agent' = @('<agent>')
        'accord sessions archive --url' = @('<>')
        'accord sessions archive --token-file' = @('<file>')
        'accord sessions archive --cwd' = @('<dir>')
        'accord sessions archive --env' = @('<>')
        'accord sessions unarchive -a' = @('<agent>')
        'accord sessions unarchive --agent' = @('<agent>')
        'accord sessions unarchive --url' = @('<>')
        'accord sessions unarchive --token-file' = @('<file>')
        'accord sessions unarchive --cwd' = @('<dir>')
        'accord sessions unarchive --env' = @('<>')
        'accord sessions delete -a' = @('<agent>')
        'accord sessions delete --agent' = @('<agent>')
        'accord sessions delete --url' = @('<>')
        'accord sessions delete --token-file' = @('<file>')
        'accord sessions delete --cwd' = @('<dir>')
        'accord sessions delete --env' = @('<>')
        'accord worktrees list --cwd' = @('<dir>')
        'accord worktrees remove --cwd' = @('<dir>')
        'accord completion' = @('bash', 'zsh', 'fish', 'powershell')
    }
    $at = 'accord'
    $previous = ''
    foreach ($element in $commandAst.CommandElements | Select-Object -Skip 1) {
        if ($element.Extent.EndOffset -ge $cursorPosition -and $wordToComplete) { break }
        $word = $element.ToString()
        if ($word -ceq '--') { return }
        if ($commands.Contains("$at $word")) { $at = "$at $word" }
        $previous = $word
    }
    if ($values.ContainsKey("$at $previous")) {
        $offers = $values["$at $previous"]
    } elseif (-not $wordToComplete.StartsWith('-') -and $values.ContainsKey($at)) {
        $offers = $values[$at]
    } else {
        $offers = @()
    }
    # Without results PowerShell completes the names of files and folders.
    foreach ($offer in $offers) {
        $names = @($offer)
        if ($offer -ceq '<agent>') { $names = accord completion agents }
        elseif ($offer[0] -eq '<') { $names = @() }
        foreach ($name in $names) {
            if ($name -like "$wordToComplete*") {
                [System.Management.Automation.CompletionResult]::new($name, $name, 'ParameterValue', $name)
            }
        }
    }
    if ($values.ContainsKey("$at $previous")) { return }
    foreach ($entry in $commands[$at].GetEnumerator()) {
        $name = $entry.Key
        if ($name -like "$wordToComplete*" -and ($wordToComplete -or $name[0] -ne '-')) {
            [System.Management.Automation.CompletionResult]::new($name, $name, 'ParameterName', $entry.Value)
        }
    }
}
