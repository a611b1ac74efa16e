"""The dialect table: every known departure from ACP v1, and what Accord does about it.

Numbers 1-75 are the dialects of other projects' documents and early peers; 101-199 are 100 + n for the nth
place where the official material contradicts itself; 201-299 are forms that once were official; 301 is the
spelling of keys.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, cast

Handling = Literal["repair", "alias", "official", "behaviour"]


class Dialect(NamedTuple):
    """One row. `handled` says where it is dealt with.

    - `repair`: a message is rewritten into the official shape before it is read;
    - `alias`: another method name, or the other kind of envelope;
    - `official`: the official reading takes it as it is, nothing is rewritten;
    - `behaviour`: no matter of one message's shape; the agent or the client acts accordingly.

    Sources: S0 simse, S1 the official schema page of 2025-09, S2 iac-code, S3 Agentao, S4 a quick reference
    for client authors, OFF official material, old or contradicting itself.
    """

    id: int
    area: str
    source: str
    text: str
    action: str
    handled: Handling

    def __str__(self) -> str:
        return f"row {self.id}: {self.text}"


# Number, area, sources, what is met, what is done, how it is handled.
_TABLE: Final = """
1 | prompt | S0 | prompt as a string, strings or one block | becomes a list of blocks | repair
2 | prompt | S0 | timeoutMs beside the prompt | ignored | official
3 | prompt result | S0 | the final text as `content` | kept for a turn without chunks | repair
4 | stop reason | S0 | stopReason tool_use | end_turn, the word is kept | repair
5 | stop reason | S0 S3 S4 | a stop reason outside the five | kept as Unknown, the turn is over | official
6 | update | S0 OFF | a flat session/update without `update` | members move into `update` | repair
7 | update | S2 S4 | update.type instead of update.sessionUpdate | renamed if a known tag | repair
8 | update | S2 OFF | update tags as class names or in camelCase | official tag | repair
9 | chunk | S2 | chunk text not wrapped in a block, or a list of blocks | wrapped; one chunk each | repair
10 | update | S0 S1 S3 S4 | fewer kinds of update | absence is fine | official
11 | tool call | S4 | `id` and `name` of a tool call | toolCallId; title if there is none | repair
12 | tool call | S0 | `toolName` and `args` of a tool call | title and name; rawInput | repair
13 | tool call | S0 | `result` and `error` of a tool call | rawOutput, content; failed | repair
14 | tool call | S2 | raw_input, raw_output, input, output | rawInput, rawOutput | repair
15 | tool call | S0 | the client is expected to run the tool | never done | behaviour
16 | tool kind | S4 | kinds `file` and `command` | for display only, never in `kind` | repair
17 | tool status | S2 S3 | different first statuses | any order is fine | official
18 | tool content | S3 | content appended per update | replaced, as official | behaviour
19 | errors | S2 S3 | errors and compaction told as message text | shown as text | behaviour
20 | permission | S0 S3 S4 | a permission request without an id | shown, never a yes | behaviour
21 | permission | S2 OFF | method request_permission | session/request_permission | alias
22 | permission | S0 | permissionId, toolName, args, description | toolCall and four options | repair
23 | permission | S2 S4 | a toolCall without toolCallId | aliased, or an id is made | repair
24 | permission answer | S2 | outcome allowed/denied with option_id | only an offered id approves | repair
25 | permission answer | S0 OFF | a bare id or kind as the answer | only if it names one option | repair
26 | permission answer | - | outcome and optionId not nested | only an offered id approves | repair
27 | permission | S2 S3 S4 | fixed option ids | ids are opaque, chosen by kind | behaviour
28 | permission | S0 | decisions kept by the client | either side may remember | behaviour
29 | permission | S3 | the agent settles permissions on cancel | the client answers too | behaviour
30 | cancel | S2 S3 S4 | session/cancel sent with an id | acted on and answered {} | alias
31 | cancel | S2 | running tools are not stopped | late effects are expected | behaviour
32 | mcpServers | S0 S2 | mcpServers left out | none | repair
33 | mcpServers | S2 | mcpServers as a map | a list, the key is the name | repair
34 | mcpServers | S3 | type stdio written out | dropped | official
35 | mcpServers | S3 | env or headers as a map, or left out | a list of name and value | repair
36 | capabilities | S3 | fs.readFile, fs.writeFile | not taken as support | official
37 | capabilities | S4 | `capabilities` instead of clientCapabilities | read in version 1 | repair
38 | capabilities | S3 | clientCapabilities thought required | absent is none | official
39 | version | S3 | any version echoed | judged by the answer's shape | behaviour
40 | initialize | S1 S4 | no agentInfo, clientInfo, sessionCapabilities | absent is off | official
41 | modes | S1 S2 | modes without config options | modes are used | behaviour
42 | models | S2 | a `models` object of a session | a select option of category model | repair
43 | list | S2 | method sessions/list | session/list | alias
44 | config | S2 | config/set, untyped booleans, no list in the answer | session/set_config_option | repair
45 | config | S3 | only configId model | any error means unchanged | behaviour
46 | config | S3 | free-form values | listed values are sent | behaviour
47 | config | S3 | options with configId, no name, null currentValue | id, value as name, empty | repair
48 | _meta | S3 | _meta refused | one retry without it | behaviour
49 | set_mode result | S3 | modeId echoed | ignored | official
50 | set_mode | S3 | any mode accepted | listed ids are sent | behaviour
51 | set_mode result | S1 | `meta` instead of _meta | ignored | official
52 | errors | S3 | -32002 as not initialised | read by the moment it comes | behaviour
53 | errors | S2 | -32602 with session_id for an unknown session | any error | official
54 | errors | S2 S3 | no -32000, no -32800 | all codes are handled | behaviour
55 | content | S4 | embedded_resource, flat resources | resource, wrapped | repair
56 | content | S2 | block tags as class names | official tags | repair
57 | content | S4 | resource_link without a name | the last part of its uri | repair
58 | content | S3 | text blocks only | the client may inline links | behaviour
59 | content | S2 | unadvertised media taken as text | fine | behaviour
60 | load | S2 | no replay | the own transcript is shown | behaviour
61 | load | S3 | the same MCP list demanded | the old list is sent again | behaviour
62 | load | S3 | replay after the answer | accepted | behaviour
63 | new | S3 | session/new that resumes | accepted | behaviour
64 | methods | S2 | fork and resume without a capability | not called | behaviour
65 | prompt result | S2 | usage in the prompt result | read | official
66 | methods | S2 | SDK verbs in prose | not aliased | behaviour
67 | extensions | S3 | _agentao.cn/ask_user | answered if understood | behaviour
68 | _meta | S3 | extensions announced in the result's _meta | read there too | official
69 | tool call | S1 | rawInput and rawOutput typed as objects | any JSON | official
70 | auth | S1 | auth methods without a type | agent | official
71 | surface | S1 S4 | an older surface without the newer parts | all optional | official
72 | order | S0 | session/new without initialize | refused | behaviour
73 | spelling | OFF | canceled, allowOnce, inProgress, label, `kind` as tag | official spelling | repair
74 | ids | OFF | `id` of plans, providers and acp servers | planId, providerId, serverId | repair
75 | permission answer | S2 | a selected rejection runs the tool | sent as cancelled | behaviour
101 | update | OFF | current_mode_update with modeId | currentModeId | repair
102 | tool content | OFF | a bare content block in tool content | wrapped | repair
103 | results | OFF | null as the answer of a method without a result | {} | repair
104 | load | OFF | null as the answer of session/load or resume | {} | repair
109 | tool status | OFF | tool call status cancelled | failed | repair
115 | elicitation | OFF | an unknown string format in a form | kept as a note, not enforced | repair
201 | config | OFF | method session/set_model | sets the model option | alias
202 | close | OFF | method session/stop | session/close | alias
203 | elicitation | OFF | session/elicitation and its completion | elicitation/* | alias
204 | capabilities | OFF | clientCapabilities.planCapabilities | plan | repair
205 | auth | OFF | auth methods of type env_var | agent; the variables are kept | repair
206 | cancel | OFF | method session/cancelled | session/cancel | alias
207 | auth | OFF | auth/status with `authenticated` | state | repair
208 | proxy | OFF | _proxy/initialize, _proxy/successor | proxy/* | alias
301 | keys | S2 | keys in snake_case | their camelCase twins | repair
"""


def _row(line: str) -> Dialect:
    number, area, source, text, action, handled = (cell.strip() for cell in line.split("|"))
    return Dialect(int(number), area, source, text, action, cast(Handling, handled))


DIALECTS: Final[Mapping[int, Dialect]] = {row.id: row for row in map(_row, _TABLE.strip().splitlines())}
