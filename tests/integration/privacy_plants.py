# SPDX-License-Identifier: Apache-2.0
"""Secrets and names as programs print them, generated from a seed: test_privacy.py plants them.

They follow the output of tools (curl -v, git, .env files, tracebacks with locals, srun, dmesg), not the rules, so that
a rule that is too narrow fails. {alnum:20} and the like are generated and must not be found afterwards; {keep:text} is
the text itself and must be found.
"""

import base64
import json
import random
import re
import string

SETS = {
    "alnum": string.ascii_letters + string.digits,
    "letters": string.ascii_letters,
    "lower": string.ascii_lowercase,
    "lownum": string.ascii_lowercase + string.digits,
    "hex": "0123456789abcdef",
    "digits": "123456789",
    "upnum": string.ascii_uppercase + string.digits,
    "base32": string.ascii_uppercase + "234567",
    "base64": string.ascii_letters + string.digits + "+/",
    "url64": string.ascii_letters + string.digits + "-_",
    "odd": string.ascii_letters + string.digits + "!#%^*_+~.?-",
}
NAMES = "bdfghjklmnpqrstvwxz"
VOWELS = "aeiou"
TOKEN = re.compile(r"\{(\w+)(?::([^}]*))?\}")

SECRETS = [
    # forges
    "remote: Invalid username or token ghp_{alnum:36}",
    "fatal: could not read from https://x-access-token:ghs_{alnum:36}@github.example/a/b.git",
    "GH_TOKEN=gho_{alnum:36} gh auth status", "{{'token': 'ghu_{alnum:36}'}}", "ghr_{alnum:76}",
    "git config: url.https://github_pat_{alnum:22}_{alnum:59}@github.example/.insteadOf",
    "logged in by github_pat_{alnum:22}_{alnum:59}", "  File 'x', in f: pat = github_pat_{alnum:22}_{alnum:59}",
    "PRIVATE-TOKEN: glpat-{url64:20}", "runner glrt-{alnum:20} registered", "deploy gldt-{alnum:20}",
    "bitbucket app ATBB{alnum:32}", "jira ATATT3xFfGF0{alnum:80}=A1B2C3D4",
    # model hubs and services
    "huggingface_hub.errors.HfHubHTTPError: 401 for token hf_{letters:34}",
    "HF_TOKEN=hf_{alnum:34}", "Token is valid (permission: read). hf_{alnum:34}", "api_org_{letters:34}",
    "openai.AuthenticationError: Incorrect API key provided: sk-{alnum:48}.",
    "OPENAI_API_KEY=sk-proj-{url64:74}T3BlbkFJ{url64:74}", "client = OpenAI(api_key=\"sk-svcacct-{url64:60}\")",
    "x-api-key: sk-ant-api03-{url64:93}AA", "anthropic sk-ant-admin01-{url64:93}AA",
    "wandb: Appending key for api.wandb.example to your netrc file: {hex:40}",
    "$ wandb login {hex:40}", "WANDB_API_KEY={hex:40}", "wandb_v1_{alnum:48}",
    "COMET_API_KEY={alnum:25}", "[comet] api_key = {alnum:25}", "comet_ml.init(api_key='{alnum:25}')",
    "NEPTUNE_API_TOKEN=eyJhcGlfYWRkcmVzcyI6Imh0dHBzOi8v{base64:90}", "neptune eyJhcGlfdXJsIjoi{base64:90}=",
    "replicate r8_{alnum:37}", "nvcr nvapi-{url64:64}", "groq gsk_{alnum:52}", "x pplx-{alnum:48}",
    "langsmith lsv2_pt_{hex:32}_{hex:10}", "jina_{alnum:60}",
    # clouds
    "aws_access_key_id = AKIA{base32:16}", "using ASIA{base32:16} from env", "AWS key AKIA{base32:16}.",
    "aws_secret_access_key = {base64:40}", "AWS_SESSION_TOKEN={base64:120}",
    "ABSK{base64:100}", "\"SecretAccessKey\": \"{base64:40}\"",
    "https://maps.googleapis.example/x?key=AIza{url64:35}", "key AIza{url64:35} is not valid",
    "ya29.{url64:120}", "refresh 1//0{url64:60}", "client_secret GOCSPX-{url64:28}",
    "\"private_key_id\": \"{hex:40}\", \"private_key\": \"-----BEGIN PRIVATE KEY-----\\n{base64:64}\\n"
    "{base64:64}\\n-----END PRIVATE KEY-----\\n\"",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={base64:86}==;EndpointSuffix=core",
    "Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey={base64:43}=",
    "AZURE_CLIENT_SECRET={alnum:3}8Q~{alnum:34}", "azure says {alnum:3}8Q~{alnum:34} expired",
    "https://acc.blob.example/c/x?sv=2022-11-02&sr=b&sig={base64:43}%3D", "pat {alnum:76}AZDO{alnum:4}",
    "https://bucket.s3.example/x?X-Amz-Credential={base32:20}%2F20260101&X-Amz-Signature={hex:64}",
    "DATABRICKS_TOKEN=dapi{hex:32}", "databricks dapi{hex:32}-2", "dop_v1_{hex:64}",
    "vault token hvs.{url64:90}", "SG.{url64:22}.{url64:43}", "tskey-auth-{alnum:12}-{alnum:32}",
    "AGE-SECRET-KEY-1{upnum:58}", "grafana glsa_{alnum:32}_{hex:8}", "pul-{hex:40}", "lin_api_{alnum:40}",
    # chat, packages, payment
    "SLACK_BOT_TOKEN=xoxb-{digits:12}-{digits:12}-{alnum:24}", "slack: xoxp-{digits:11}-{digits:11}-{hex:32}",
    "xapp-1-A{upnum:10}-{digits:13}-{hex:64}",
    "POST https://hooks.slack.com/services/T{upnum:8}/B{upnum:8}/{alnum:24}",
    "https://discord.com/api/webhooks/{digits:18}/{url64:68}", "bot{digits:10}:AA{url64:33}/getMe",
    "telegram {digits:10}:AA{url64:33}", "//registry.example/:_authToken=npm_{alnum:36}", "npm_{alnum:36}",
    "twine: pypi-AgEIcHlwaS5vcmc{url64:120}", "dckr_pat_{url64:27}", "rubygems_{hex:48}",
    "stripe sk_live_{alnum:24}", "rk_test_{alnum:24}",
    # as base64, which kubectl and docker show
    "  token: aGZf{alnum:44}", "data aGZf{alnum:46}==", "tls.key: LS0tLS1CRUdJTiBQUklW{alnum:120}", "{{\"auth\": \"Z2hwX{alnum:48}\"}}",
    # keys, JWTs, headers, cookies
    "-----BEGIN RSA PRIVATE KEY-----\n{base64:64}\n{base64:64}\n{base64:40}=\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\n{base64:70}\n{base64:70}\n-----END OPENSSH PRIVATE KEY-----",
    "  | -----BEGIN EC PRIVATE KEY-----\n  | {base64:64}\n  | {base64:40}\n  | -----END EC PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n{base64:64}\n{base64:64}\nTraceback (most recent call last):",
    "...cut...\n{base64:64}\n{base64:64}\n{base64:22}==\n-----END PRIVATE KEY-----",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{base64:64}\n{base64:64}\n=AbCd\n-----END PGP PRIVATE KEY BLOCK-----",
    "id_token eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJ{url64:90}.{url64:86}", "eyJhbGciOiJub25lIn0.eyJ{url64:60}.",
    "> Authorization: Bearer {url64:60}", "< authorization: token {alnum:40}", "Proxy-Authorization: Basic {base64:24}==",
    "curl -H \"Authorization: Bearer {alnum:32}\" https://x.example", "headers={{'Authorization': 'Api-Key {alnum:30}'}}",
    "grpc metadata ('authorization', 'Bearer {alnum:40}')", "auth header was Bearer {alnum:40}",
    "401 Unauthorized Basic {lower:2}{upnum:8}{base64:20}=", "WWW Bearer: {alnum:30}",
    "Cookie: theme={alnum:14}; lang=x", "Cookie: sessionid={lownum:32}; csrftoken={alnum:32}", "Set-Cookie: JSESSIONID={upnum:32}; Path=/",
    "requests.cookies {{'cookie': 'auth={alnum:20}'}}", "http://x.example/a;jsessionid={upnum:32}",
    # names and values
    "POSTGRES_PASSWORD={odd:14}", "export DB_PASS='{alnum:12}'", "password: {alnum:10}", "Password={odd:12};Encrypt=true",
    "{{\"password\": \"{alnum:8} {alnum:8}\", \"n\": 3}}", "passphrase = '{letters:9} {letters:7} {letters:8}'",
    "  api_key: {alnum:32}", "apiKey={alnum:24}", "\"clientSecret\":\"{alnum:40}\"", "X-Api-Key: {alnum:32}",
    "secret_key = b'{alnum:50}'", "DJANGO_SECRET_KEY='{alnum:50}'", "\\\"auth_token\\\": \\\"{alnum:24}\\\"",
    "access-token={alnum:32}", "refresh_token='{alnum:40}'", "SENTRY_DSN={alnum:32}", "creds={alnum:16}",
    "sig: {alnum:40}", "<password>{alnum:12}</password>", "<api_key>{alnum:30}</api_key>", "VENDOR_KEY={alnum:32}",
    "LICENSE_KEY={upnum:25}", "SIGNING_CERT={alnum:40}", "os.environ[\"MY_SECRET\"] = \"{alnum:20}\"",
    "locals: {{'self': <x>, 'token': '{alnum:24}', 'n': 3}}", "    pwd = '{alnum:12}'", "kwargs={{'auth_key': '{alnum:16}'}}",
    "│ api_token = '{alnum:32}' │", "Config(hf_token='{alnum:20}', seed=1)",
    "ERROR: invalid token {alnum:24}", "wandb: api_key {hex:40}", "the API key {alnum:32} is not valid", "Config(api_key=SecretStr('{alnum:32}'))",
    "aws configure set aws_secret_access_key {alnum:40}", "{{\"token\": {{\"access\": \"{alnum:40}\", \"n\": 1}}}}",
    "{{\"username\":\"x\",\"key\":\"{hex:32}\"}}", "PresharedKey = {base64:43}=", "bindpw={alnum:16}", "> Authorization: Signature {letters:40}",
    "mnemonic: {lower:8} {lower:8} {lower:8} {lower:8} {lower:8} {lower:8} {lower:8} {lower:8} {lower:8} {lower:8} {lower:8} {lower:8}",
    # command lines
    "$ wandb login --relogin {hex:40}", "echo \"{alnum:16}\" | docker login -u x --password-stdin", "echo {alnum:12} | sudo -S reboot",
    "smbclient //srv/x -U x%{alnum:14}", "7z x -p{alnum:14} a.7z", "unzip -P {alnum:14} a.zip", "gh auth login --with-token <<< {alnum:30}",
    "python train.py --token {alnum:24} --max-tokens 512", "argv: ['x', '--password', '{odd:12}']", "--api-key={alnum:20}",
    "serve --hf-token \"{alnum:24}\"", "cmd --wandb-api-key {hex:40}", "-token {alnum:20}", "run --auth {alnum:24}",
    # arguments of several words
    "--env 'API_KEY={lower:7} of the {lower:5} page'", "--password '{lower:6} and the {lower:5}'",
    "docker run -e \"DB_PASSWORD={lower:5} {lower:7} {lower:6}\" rocm/x",
    # keys and logins by the form of a command or a call
    "key = bytes.fromhex('{hex:64}')", "const key = Buffer.from('{hex:32}', 'hex')", "AESGCM(bytes.fromhex('{hex:64}'))",
    "openssl enc -aes-256-cbc -K {hex:64} -iv 0", "echo {lower:6}:{alnum:9} | chpasswd", "htpasswd -bn anna {alnum:9}",
    "rsync --password-file=<(echo {alnum:10}) a b", "restic --password-command 'echo {alnum:12}' backup x",
    "curl -s -u {lower:6}:{alnum:12} https://x.example", "wget --http-password={alnum:14} x", "sshpass -p {alnum:9} ssh h",
    "mysql -h db -u root -p{alnum:10} x", "redis-cli -h c -a {alnum:12} ping", "docker login -u x -p {alnum:14} r.example",
    "https://conda.example.org/t/{lownum:16}/x/linux-64",
    "*:*:*:app:{alnum:12}", "Private-MAC: {hex:40}", "{{\"kty\":\"EC\",\"d\":\"{lower:20}-{lower:22}\"}}", "credential MUNGE:{letters:60}:",
    "xauth add x/unix:0 MIT-MAGIC-COOKIE-1 {hex:32}", "x:\n  password: |\n    {lower:12}\nport: 1", "get(url, auth=('{lower:7}', '{alnum:9}'))",
    "snmpd.conf: rocommunity {alnum:12} 10.90.0.0/16", "snmp-server community {alnum:10} RO", "snmpwalk -v2c -c {alnum:9} pdu .1.3",
    "Found key 'ssl.key-store-password' in PropertySource 'app' with value of type String: {letters:6}-{digits:4}",
    "Passwort: {lower:9}", "your password is {alnum:9}, please change it", "license key: {upnum:4}1-{upnum:5}-{upnum:5}-{upnum:5}",
    "--webhook https://ci.example.net/h/{alnum:20}", "TF_VAR_x={alnum:9}", "IBAN DE{digits:20} booked",
    # in a debugger, below a heading, in a block
    "$1 = {{host = 0x5581c0 \"x\", passwd = 0x558200 \"{letters:14}\", port = 3306}}", "(gdb) p cfg->token\n$4 = 0x55d2c0 \"{letters:14}\"",
    "Your emergency scratch codes are:\n  {digits:8}\n  {digits:8}\nKeep them.", "{{'api_key_comfy_org': 'comfyui-{hex:64}'}}",
    "nats | -----BEGIN USER NKEY SEED-----\nnats | {base32:58}\nnats | ------END USER NKEY SEED------",
    "Installed product key {upnum:5}-{upnum:5}-{upnum:5}-{upnum:5}-{upnum:5} successfully.",
    # connections and files of secrets
    "postgresql://{lower:6}:{alnum:14}@db.example:5432/x", "mongodb+srv://u:{alnum:16}@c0.example/x", "redis://:{alnum:20}@cache.example/0",
    "amqps://guest:{alnum:12}@mq.example/%2f", "https://{alnum:40}@git.example/x.git", "s3: http_proxy=http://p:{alnum:10}@proxy.example:3128",
    "machine api.example login {lower:8} password {alnum:40}", "machine h.example\n  login {lower:8}\n  password {alnum:20}",
    "{lower:6}:{alnum:12}@tcp(db.example:3306)/x", "jdbc:oracle:thin:{lower:6}/{alnum:10}@db.example:1521:x", "Driver={{ODBC}};UID={lower:7};PWD={alnum:12};",
    "GET /login?password={alnum:12}&x=1", "/cb?code={alnum:30}&state=x", "wss://x.example/?access_token={alnum:40}",
]

# Secrets without a known form: only the mixture of their characters shows them.
EXACT = ["posted to MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.{alnum:27}", "X_THING={upnum:5}1b4{lownum:5}7{upnum:6}3x{lownum:4}9{upnum:4}"]

OTHERS = [
    ("home", "File \"/home/{name:8}/proj/train.py\", line 3"), ("home", "cwd /Users/{name:7}/x"), ("home", "C:\\Users\\{name:8}\\AppData"),
    ("home", "{{\"p\": \"C:\\\\Users\\\\{name:8}\\\\x\"}}"), ("home", "/export/home/{name:7}/.cache"), ("home", "file:///home/{name:9}"),
    ("home", "/home/{name:4}.{name:6}/x"), ("home", "/var/home/{name:8}/.local"), ("home", "/data/home/{name:7}/x"), ("home", "cache in {root}"),
    ("user", "USER={name:8}"), ("user", "LOGNAME={name:7}"), ("user", "uid=1000({name:7}) gid=1000({name:8}) groups=44(video)"),
    ("user", "pam_unix(sudo:session): session opened for user {name:8}(uid=1000)"), ("user", "UserId={name:7}(1001) GroupId=users(100)"),
    ("user", "{name:7}@{name:8}:~/proj$ python train.py"), ("user", "[{name:7}@{name:8} ~]$ ls"), ("user", "sudo:    {name:8} : TTY=pts/0 ; PWD=/x"),
    ("user", "SLURM_JOB_USER={name:8}"),
    ("user", "drwxr-xr-x 3 {name:8} {name:7} 4096 Nov 22 10:00 models"), ("user", "Author: {name:8} {name:7} <x>"),
    ("user", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{alnum:43} {name:7}@{name:8}"), ("user", "sudo usermod -a -G render,video {name:8}"),
    ("user", "User {name:8} is not in the render group"), ("user", "ssh {name:7}@{name:8}1"), ("user", "{name:7} is not member of \"render\" group, the default DRM access group"),
    ("user", "in queue <gpu>, as user <{name:7}> in cluster <x>."), ("user", "chown -R {name:7}:{name:8} /x"),
    ("user", "wandb: Currently logged in as: {name:7} (team)"), ("user", "{{\"user\": \"{name:8}\"}}"),
    ("user", "{name:8}    4711  99.0  1.2 123456 7890 pts/0 R+ 10:00 0:10 python x.py"), ("user", "[{name:7}@{name:8} llama.cpp]$ ./main"),
    ("user", "   4711 {name:8}   20   0   10.0g   1.0g   1.0g R  99.0   1.0   0:10.00 python"),
    ("host", "init_method=tcp://{name:8}:29500"), ("host", "[{name:6}-1:103933] Read 1, errno = 14"), ("host", "stderr:   host      : {name:8}"),
    ("host", "System:    Host: {name:7}-pc Kernel: 6.8.0"), ("host", "[job id 17.0] [{name:6}12] - Abort(540651266) (rank 0 in comm 0)"), ("host", "[{name:8}:12345] *** Process received signal *** MPI"),
    ("host", "ssh: connect to host {name:8} port 22: Connection refused"), ("host", "Rank 3 on {name:7}-017: HIP out of memory"),
    ("host", "{name:8}.example.com:/export/x on /mnt/x type nfs4 (rw)"), ("host", "connect to {name:8}.cluster.example.edu:29500 timed out"),
    ("host", "HOSTNAME={name:7}-07"), ("host", "Jan  7 10:00:00 {name:8} kernel: [drm] x"), ("host", "Linux {name:8} 6.8.0-60-generic #63 SMP x86_64"),
    ("host", "2026-01-07T10:00:00.123+01:00 {name:8} systemd[1]: x"), ("host", "{name:7}3:4711:4720 [0] NCCL INFO Bootstrap"),
    ("host", "  host      : {name:8}.example.org"), ("host", "srun: error: {name:6}017: task 3: Killed"), ("host", "MASTER_ADDR={name:8}"),
    ("host", "slurmstepd: error: *** STEP 17.0 ON {name:7}01 CANCELLED AT 2026-01-01T00:00:00 ***"), ("host", "\"hostname\": \"{name:9}\""),
    ("host", "SLURM_JOB_NODELIST={name:7}[01-04]"), ("host", "could not reach {name:8}.{name:5}.corp"), ("host", "{name:8}.default.svc.cluster.local"),
    ("host", "on {ipdash}.eu-west-1"), ("host", "NodeList={name:8}"),
    ("ip", "connect to {ip4} port 29500"), ("ip", "tcp://{ip4}:29500"), ("ip", "inet {ip4}/24 brd"), ("ip", "NET/Socket : Using bond0:{ip4}<0>"),
    ("ip", "inet6 {ip6}/64"), ("ip", "[{ip6}]:8000"), ("ip", "addr {ip6long}"),
    ("mac", "link/ether {mac} brd"), ("mac", "hwaddr {macdash}"), ("mac", "IB port guid {ib}"),
    ("id", "GPU[0]\t\t: Serial Number: {digits:12}"), ("id", "GPU[0]\t\t: Unique ID: 0x{hex:16}"), ("id", "unique_id {digits:19}"),
    ("id", "  Uuid:                    GPU-{hex:16}"), ("id", "ASIC_SERIAL: 0x{hex:16}"), ("id", "machine-id: {hex:32}"),
    ("id", "root=UUID={uuid} ro quiet"), ("id", "BOOT_ID={hex:32}"), ("id", "Product Serial Number: PCB{digits:10}"),
    ("id", "vg {uuid}"), ("id", "/var/log/journal/{hex:32}/system.journal"), ("id", "/dev/disk/by-id/ata-WDC_WD40-WD-WX1{digits:8}-part1"),
    ("email", "mail {name:8}@corp.example.com now"), ("email", "Author: X <{name:6}.{name:7}@example.org>"), ("email", "iam: {name:8}@proj.iam.gserviceaccount.example.com"),
    ("account", "SLURM_JOB_ACCOUNT={name:9}"), ("account", "#SBATCH --account={name:8}"), ("account", "sbatch -p gpu -A {name:8} job.sh"),
    ("account", "   Account={name:8} QOS=normal"), ("account", "arn:aws:iam::{digits:12}:role/train"), ("account", "{digits:12}.dkr.ecr.eu-west-1.example/x"),
    ("path", "loading /opt/{name:8}/{name:7}/{keep:llama-7b.Q4_K_M.gguf}"), ("path", "--model /srv/{name:8}/{name:7}/{keep:llama-3}"),
    ("path", "data_dir='/scratch/{name:8}/{name:7}/{keep:imagenet}'"), ("path", "s3://{name:9}/{name:7}/{keep:model.bin} "),
    ("path", "open('/app/{name:8}/{keep:model-00001-of-00002.safetensors}')"), ("path", "/mnt/{name:8}/{name:7}/{keep:config.json}"),
    ("path", "/lustre/{name:7}/{name:8}/venv/{keep:lib/python3.12/site-packages/torch/x.py}"), ("path", "checkpoint /work/{name:8}/{keep:step_100.pt} saved"),
    ("project", "File \"<home1>/projects/{name:8}/{keep:src/train.py}\", line 3"), ("project", "~/{name:8}/{keep:x.py}"),
    ("project", "models--{name:7}--{name:8}/snapshots"), ("project", "load_dataset('{name:7}/{name:8}', split='train')"),
    ("project", "--wandb-project {name:8} --lr 1"), ("project", "WANDB_ENTITY={name:7}"),
    ("project", "git@github.com:{name:7}/{name:8}.git (fetch)"), ("project", "docker: pulling reg.{name:7}.io/{name:8}:2.1"),
    ("project", "mlflow experiment '{name:8}' run"),
    ("text", "prompt: \"{name:7} {name:8}\", params: x"), ("text", "{{\"role\": \"user\", \"content\": \"{name:8}\"}}"),
    ("text", "Prompt: {name:7} {name:6} {name:8}"), ("text", "--negative-prompt={name:7} {name:8}"),
    ("text", "user: {name:7} {name:6} {name:8} {name:7}"), ("text", "<|im_start|>user {name:7} {name:8}<|im_end|>"),
    ("text", "### Instruction: {name:7} {name:8}"), ("text", "{{\"type\": \"text\", \"text\": \"{name:7} {name:6}\"}}"),
    ("text", "prompt_token_ids: [{ids:4}], x"),
    ("text", "SYSTEM_PROMPT={name:7} {name:8}"), ("text", "llama-cli -p '{name:7} {name:6} {name:7}' -n 1"),
    ("host", "--rdzv-endpoint {name:6}-01:29500"), ("host", "NCCL_COMM_ID={name:6}-02:29500"), ("host", "{name:6}-07 slots=8"),
    ("host", "\"{name:6}1:2222\", \"worker\""), ("user", "dn: uid={name:8},ou=People,dc={name:7},dc=nl"),
    ("user", "logged in as {name:7}\\{name:8} on console"), ("user", "Linux version 6.8.0 ({name:8}@{name:8}) (gcc 13.2.0)"),
    ("id", "docker exec -it {hex:12} nvidia-smi -q"), ("user", "15:02 <@{name:8}> the card fell off the bus"),
    ("project", "https://dev.azure.com/{name:7}/{name:8}/_git/{name:6} (fetch)"), ("project", "t.py +logger.wandb.name={name:6}-train3"),
    ("host", "err=\"x\" pod=\"{name:6}/triton-{name:6}-0\" podUID=\"x\""), ("user", "微信号：{name:6}_{digits:5}"),
    ("user", "{{\"real_name\":\"x\",\"display_name\":\"{name:7}\",\"team\":1}}"),
    ("text", "R(rid='x', text=['{name:7} the {name:8} into Dutch'], input_ids=None)"),
    ("id", "container id: {hex:12} started"), ("account", "Call +49 171 {digits:7} when it ends"),
    ("path", "audit: apparmor=\"DENIED\" name=\"/home/x/{name:8}.odt\" pid=99"),
    ("path", "hdfs://{name:8}/{name:7}/{keep:part-0001}"), ("path", "model_name_or_path: /opt/{name:8}/{name:6}/{keep:llama}"), ("path", "/gpfs/{name:8}/{name:6}/{keep:out}"),
]


# Tokens after another program has changed them: escaped, encoded, wrapped.
ODD_TOKENS = ["hf_{alnum:34}", "ghp_{alnum:36}", "github_pat_{alnum:22}_{alnum:59}", "glpat-{alnum:20}",
              "xoxb-{digits:12}-{digits:12}-{alnum:24}", "sk-proj-{alnum:74}T3BlbkFJ{alnum:74}",
              "sk-ant-api03-{alnum:93}AA", "AKIA{base32:16}", "AIza{alnum:35}", "{alnum:3}8Q~{alnum:34}",
              "eyJhbGciOiJSUzI1NiJ9.eyJ{url64:60}.{url64:43}"]


def wrapped(text, width):
    """The token as a terminal wraps it, and its pieces."""
    return [text[at:at + width] for at in range(0, len(text), width)]


def boxed(text):
    """The token as Rich's tracebacks show it, 80 columns wide."""
    lines = [f"│ {piece.ljust(76)} │" for piece in wrapped(text, 76)]
    return "\n".join(["╭" + "─" * 78 + "╮", *lines, "╰" + "─" * 78 + "╯"])


def base64_of(text):
    return base64.b64encode(text.encode()).decode()


def percents(text):
    return "".join(f"%{byte:02X}" for byte in text.encode())


LONG = "RuntimeError: the hub did not take what was given to it for a login, namely ('"
# Name, the text around a token, and the pieces of the token that must not be found.
ODD_FORMS = [
    ("colour inside", lambda t: f"token \x1b[31m{t[:9]}\x1b[0m\x1b[1m{t[9:]}\x1b[0m end", lambda t: [t[9:]]),
    ("each letter a colour", lambda t: "".join(f"\x1b[3{i % 8}m{c}" for i, c in enumerate(t)) + "\x1b[0m",
     lambda t: ["".join(f"\x1b[3{i % 8}m{c}" for i, c in enumerate(t))[20:60]]),
    ("colour in repr()", lambda t: repr(f"token \x1b[31m{t[:9]}\x1b[0m{t[9:]}"), lambda t: [t[9:]]),
    ("nobody sees it", lambda t: f"login {t[:9]}\u200b{t[9:]} end", lambda t: [t[9:]]),
    ("a link inside", lambda t: f"login {t[:9]}\x1b]8;;http://a.b/\x1b\\{t[9:]} end", lambda t: [t[9:]]),
    ("base64", lambda t: f"data: {base64_of(t)}", lambda t: [base64_of(t)] if "Q~" not in t else []),
    ("base64 of a login", lambda t: f'{{"auths": {{"r.example": {{"auth": "{base64_of("user:" + t)}"}}}}}}',
     lambda t: [base64_of("user:" + t)]),
    ("base64 of a known one", lambda t: f"X_API_KEY={t} is {base64_of('oauth2:' + t)} there",
     lambda t: [t, base64_of("oauth2:" + t)[12:-4]]),
    ("percents", lambda t: f"GET /x?u={percents(t)}", lambda t: [percents(t)]),
    ("a percent", lambda t: f"GET /x?next=%2Fa%3Ftoken%3D{t}%26b=1", lambda t: [t]),
    ("JSON in JSON in JSON", lambda t: json.dumps(json.dumps({"a": json.dumps({"t": t})})), lambda t: [t]),
    ("file name", lambda t: f"open /tmp/.cache/{t}.lock: /var/x/{t}/y", lambda t: [t]),
    ("letter option", lambda t: f"prog -p{t} -v", lambda t: [t]),
    ("scheduler", lambda t: f"OMPI_MCA_x={t} PMIX_SECURITY_TOKEN={t} SLURM_JWT={t}", lambda t: [t]),
    ("audit", lambda t: f'audit: type=1400 comm="python" cmd="{t}"', lambda t: [t]),
    ("git", lambda t: f"origin\thttps://oauth2:{t}@git.example/a.git (fetch)", lambda t: [t]),
    ("80 columns", lambda t: "\n".join(wrapped(LONG + t + "') and nothing else helped, so this is the end of it", 80)),
     lambda t: [piece for piece in wrapped("x" * len(LONG) + t, 80)[1:]]),
    ("80 columns, named", lambda t: "\n".join(wrapped(LONG + "hub_api_key=" + t + " and more of it", 80)),
     lambda t: [piece for piece in wrapped("x" * (len(LONG) + 12) + t, 80)[1:]]),
    ("Rich's box", lambda t: boxed("value = '" + "y" * 50 + " " + t + "' and what follows after it"),
     lambda t: [piece for piece in wrapped("x" * 60 + t, 76)[1:]]),
]


class Plant:
    def __init__(self, kind, text, secrets, kept, form):
        self.kind, self.text, self.secrets, self.kept, self.form = kind, text, secrets, kept, form

    def found_in(self, lower):
        """The part of the plant that the text (in lower case) has: a value, or 12 characters of a secret."""
        for secret in self.secrets:
            secret = secret.lower()
            if self.kind == "secret" and len(secret) > 12:
                for at in range(len(secret) - 11):
                    if secret[at:at + 12] in lower:
                        return secret[at:at + 12]
            elif secret.isdigit():  # digits inside a longer number are no leak: times and sizes contain any five digits
                if re.search(rf"(?<!\d){secret}(?!\d)", lower):
                    return secret
            elif secret in lower:
                return secret
        return ""


class Maker:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.names = []

    def name(self, n):
        """A pronounceable name of consonants and vowels. It is no other word by accident, and no part of one."""
        while True:
            made = "".join(self.rng.choice(NAMES if i % 2 == 0 else VOWELS) for i in range(n - 1)) + "q"
            if not any(made in other or other in made for other in self.names):
                self.names.append(made)
                return made

    def value(self, what, argument):
        rng = self.rng
        if what == "name":
            return self.name(int(argument))
        if what == "ip4":
            return f"10.{rng.randrange(256)}.{rng.randrange(100, 256)}.{rng.randrange(100, 255)}"
        if what in ("mac", "macdash"):
            pairs = ["52"] + ["%02x" % rng.randrange(1, 256) for _ in range(5)]
            return (":" if what == "mac" else "-").join(pairs)
        if what == "ib":
            return ":".join(["80"] + ["%02x" % rng.randrange(256) for _ in range(19)])
        if what in ("ip6", "ip6long"):
            groups = ["%04x" % rng.randrange(0x1000, 0x10000) for _ in range(4)]
            return ("fe80::" if what == "ip6" else "2001:0db8:0:1:") + ":".join(groups)
        if what == "uuid":
            return "-".join("%0*x" % (n, rng.getrandbits(4 * n)) for n in (8, 4, 4, 4, 12))
        if what == "ipdash":
            return f"ip-10-{rng.randrange(256)}-{rng.randrange(256)}-{rng.randrange(256)}"
        if what == "root":
            return f"/root/.{self.name(8)}"
        if what == "ids":
            return ", ".join(self.value("digits", 5) for _ in range(int(argument)))
        n = int(argument)
        text = [rng.choice(SETS[what]) for _ in range(n)]
        if n > 4 and what not in ("letters", "lower", "digits"):  # as nearly all real tokens have
            text[rng.randrange(n)] = rng.choice("23456789" if what != "base32" else "234567")
            text[0] = rng.choice("abcdef") if what in ("hex", "lownum") else rng.choice("ABCDEF")
            text[n // 2] = "7"
        return "".join(text)

    def plant(self, kind, template, case):
        secrets, kept = [], []

        def fill(match):
            what, argument = match.group(1), match.group(2)
            if what == "keep":
                kept.append(argument)
                return argument
            made = self.value(what, argument)
            if what == "ids":  # any /proc/meminfo has one number of a list, but not two in this order
                numbers = made.split(", ")
                secrets.extend(map(", ".join, zip(numbers, numbers[1:])))
            elif len(made) > 4:  # shorter texts are parts of other words
                secrets.append(made)
            return made

        text = TOKEN.sub(fill, template.replace("{{", "\x01").replace("}}", "\x02"))
        text = text.replace("\x01", "{").replace("\x02", "}")
        text = {"upper": text.upper(), "lower": text.lower()}.get(case, text)
        return Plant(kind, text, secrets, [k.lower() for k in kept], template)

    def odd(self):
        """Tokens that another program has changed: escaped, encoded, coloured, wrapped. Each is alone in its text."""
        plants = []
        for name, form, seen in ODD_FORMS:
            for template in ODD_TOKENS:
                token = self.plant("secret", template, "").text
                secrets = [piece for piece in seen(token) if len(piece) > 6]
                plants.append(Plant("secret", form(token), secrets, [], f"{name}: {template}"))
        return plants

    def all(self, cases=("as it is", "upper", "lower")):
        rows = [("secret", template) for template in SECRETS] + OTHERS
        exact = [("secret", template) for template in EXACT]
        return [self.plant(kind, template, case) for case in cases
                for kind, template in rows + (exact if case == "as it is" else [])]
