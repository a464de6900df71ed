//! Samples: tokens as they are issued, and texts that only look as if they held one.
//!
//! They are put together when the tests run, so that no scanner takes this file for a leak.

/// Returns made-up characters of an alphabet, others for each seed.
pub(super) fn fill(alphabet: &str, length: usize, seed: u64) -> String {
    let alphabet = alphabet.as_bytes();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let at = usize::try_from(state % alphabet.len() as u64).expect("it is small");
            char::from(alphabet[at])
        })
        .collect()
}

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
pub(super) const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEX: &str = "0123456789abcdef";
const URL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

pub(super) fn alnum(length: usize) -> String {
    // A letter at both ends, as a token that ends in punctuation would be cut.
    format!("k{}k", fill(ALNUM, length - 2, length as u64))
}

pub(super) fn hex(length: usize) -> String {
    format!("a{}", fill(HEX, length - 1, length as u64))
}

fn url(length: usize) -> String {
    format!("u{}u", fill(URL, length - 2, length as u64))
}

/// What it is called, and a token of that form.
pub(crate) fn tokens() -> Vec<(&'static str, String)> {
    let upper = |length| fill(UPPER, length, 7);
    let digits = |length| fill("123456789", length, 9);
    let mut tokens = vec![
        ("aws access key", format!("AKIA{}", upper(16))),
        ("aws access key", format!("ASIA{}", upper(16))),
        ("anthropic api key", format!("sk-ant-api03-{}", url(90))),
        ("openai api key", format!("sk-proj-{}", url(70))),
        ("openai api key", format!("sk-svcacct-{}", url(70))),
        ("openai api key", format!("sk-{}", alnum(48))),
        ("openrouter api key", format!("sk-or-v1-{}", hex(64))),
        (
            "github token",
            format!("github_pat_{}_{}", alnum(22), alnum(59)),
        ),
        (
            "slack token",
            format!("xoxb-{}-{}-{}", digits(11), digits(12), alnum(24)),
        ),
        ("slack token", format!("xoxp-{}-{}", digits(11), alnum(32))),
        (
            "slack token",
            format!("xapp-1-{}-{}-{}", upper(11), digits(13), hex(64)),
        ),
        ("stripe key", format!("sk_live_{}", alnum(24))),
        ("stripe key", format!("rk_live_{}", alnum(24))),
        ("stripe key", format!("sk_test_{}", alnum(24))),
        ("signing secret", format!("whsec_{}", alnum(32))),
        ("google api key", format!("AIza{}", url(35))),
        ("google oauth token", format!("ya29.{}", url(60))),
        ("google client secret", format!("GOCSPX-{}", url(28))),
        ("xai api key", format!("xai-{}", alnum(80))),
        ("groq api key", format!("gsk_{}", alnum(52))),
        ("perplexity api key", format!("pplx-{}", alnum(48))),
        ("hugging face token", format!("hf_{}", alnum(34))),
        ("replicate token", format!("r8_{}", alnum(37))),
        ("databricks token", format!("dapi{}", hex(32))),
        ("npm token", format!("npm_{}", alnum(36))),
        ("pypi token", format!("pypi-AgEIcHlwaS5vcmc{}", url(60))),
        ("rubygems token", format!("rubygems_{}", hex(48))),
        ("crates.io token", format!("cio{}", alnum(32))),
        ("docker token", format!("dckr_pat_{}", url(27))),
        ("sendgrid api key", format!("SG.{}.{}", url(22), url(43))),
        ("mailgun api key", format!("key-{}", hex(32))),
        ("mailchimp api key", format!("{}-us12", hex(32))),
        ("twilio api key", format!("SK{}", hex(32))),
        ("digitalocean token", format!("dop_v1_{}", hex(64))),
        ("fly.io token", format!("fo1_{}", url(43))),
        ("netlify token", format!("nfp_{}", alnum(36))),
        ("linear api key", format!("lin_api_{}", alnum(40))),
        ("notion token", format!("ntn_{}", alnum(46))),
        ("notion token", format!("secret_{}", alnum(43))),
        ("figma token", format!("figd_{}", url(40))),
        ("atlassian token", format!("ATATT3{}", url(180))),
        ("postman api key", format!("PMAK-{}-{}", hex(24), hex(34))),
        ("shopify token", format!("shpat_{}", hex(32))),
        ("square token", format!("sq0csp-{}", url(43))),
        (
            "paypal token",
            format!("access_token$production${}${}", alnum(16), hex(32)),
        ),
        (
            "telegram bot token",
            format!("{}:AA{}", digits(10), url(33)),
        ),
        (
            "discord bot token",
            format!("M{}.{}.{}", alnum(23), url(6), url(38)),
        ),
        ("vault token", format!("hvs.{}", url(90))),
        (
            "terraform token",
            format!("{}.atlasv1.{}", alnum(14), url(64)),
        ),
        ("doppler token", format!("dp.pt.{}", alnum(43))),
        ("grafana token", format!("glsa_{}_{}", alnum(32), hex(8))),
        ("new relic api key", format!("NRAK-{}", upper(27))),
        ("sentry token", format!("sntryu_{}", hex(64))),
        ("planetscale token", format!("pscale_tkn_{}", url(43))),
        ("supabase token", format!("sbp_{}", hex(40))),
        (
            "tailscale key",
            format!("tskey-auth-{}-{}", alnum(17), alnum(32)),
        ),
        ("age secret key", format!("AGE-SECRET-KEY-1{}", upper(58))),
        ("1password token", format!("ops_eyJ{}", url(200))),
        (
            "dynatrace token",
            format!("dt0c01.{}.{}", upper(24), upper(64)),
        ),
        ("airtable token", format!("pat{}.{}", alnum(14), hex(64))),
        ("buildkite token", format!("bkua_{}", hex(40))),
        ("pulumi token", format!("pul-{}", hex(40))),
        ("heroku api key", format!("HRKU-{}", url(58))),
        (
            "json web token",
            format!("eyJ{}.eyJ{}.{}", url(34), url(60), url(43)),
        ),
        (
            "webhook address",
            format!(
                "https://hooks.slack.com/services/T{}/B{}/{}",
                upper(8),
                upper(10),
                alnum(24)
            ),
        ),
        (
            "webhook address",
            format!(
                "https://discord.com/api/webhooks/{}/{}",
                digits(18),
                url(68)
            ),
        ),
    ];
    tokens.extend(
        ["ghp_", "gho_", "ghu_", "ghs_", "ghr_"]
            .map(|prefix| ("github token", format!("{prefix}{}", alnum(36)))),
    );
    tokens.extend(
        ["glpat-", "gldt-", "glptt-", "glrt-"]
            .map(|prefix| ("gitlab token", format!("{prefix}{}", url(20)))),
    );
    tokens
}

/// Texts that hold nothing secret, though one might think so.
pub(crate) fn look_alikes() -> Vec<String> {
    let hash = hex(40);
    let sha256 = hex(64);
    let image = fill(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
        4_000,
        3,
    );
    let mut texts: Vec<String> = [
        "The password is required.",
        "The password is wrong",
        "My password is kept in the safe",
        "the password is stored in 1Password",
        "The password is not known to me",
        "Passwords: see the vault",
        "Password: see the vault",
        "password: required",
        "password: string",
        "password: String,",
        "password: Option<String>",
        "password: &str",
        "password = get_password()",
        "password = self.config.password",
        "password=password",
        "password: ${DB_PASSWORD}",
        "password: {{ vault_password }}",
        "password: <your password>",
        "password: ********",
        "password: xxxxxxxx",
        "PASSWORD=$DB_PASSWORD",
        "password_hash: bcrypt",
        "password: /run/secrets/db",
        "password_file=/run/secrets/db",
        "password: process.env.DB_PASSWORD",
        "password: ask",
        "The password expires in 90 days",
        "The password policy is strict: 12 characters and 2 digits",
        "password reset is broken",
        "We changed the password and it is fine now",
        "The password field is case-sensitive",
        "the password was rotated",
        "the password has been compromised",
        "The password is longer than the old one",
        "Das Passwort ist geheim und lang",
        "the token bucket is full",
        "token: string",
        "tokens: 4096",
        "max_tokens: 4096",
        "max_tokens=4096",
        "token count: 12345",
        "the next token is sampled with temperature 0.7",
        "the tokenizer is cl100k_base",
        "token_limit = 128000",
        "secret: Vec<u8>",
        "The secret is out",
        "The secret of good coffee is fresh water",
        "secretary: Dora",
        "our secret santa budget is 20 EUR",
        "the API key is missing",
        "The API key is stored in the vault",
        "api_key: your_api_key_here",
        "api_key=YOUR_API_KEY",
        "API key: <paste it here>",
        "api_key = os.environ['KEY']",
        "api_key: str",
        "api_key_id: 12",
        "api keys: see the wiki",
        "primary_key: user_id_1",
        "foreign_key = orders_2_id",
        "cache_key: page-12",
        "cache_key = \"user:12:profile\"",
        "sort_key=name",
        "key: value",
        "the key is under the mat",
        "The spare key hangs behind the clock.",
        "a key decision of 2026-11-30",
        "keyboard: Model M 1391401",
        "press key F12",
        "access key facts about the 2024 report",
        "token: 2026-11-30T10:00:00Z",
        "the session token is valid for 15min",
        "credentials: see README.md",
        "the credentials are in the safe",
        "https://user@example.com/path",
        "http://localhost:8080/a@b",
        "https://example.com:443/x",
        "see https://example.com/?page=2",
        "git@github.com:org/repo.git",
        "ssh://git@host.example:22/repo",
        "mailto:ada@example.com",
        "postgres://user:${PASS}@db/app",
        "postgres://user:<password>@db/app",
        "bearer of bad news",
        "the bearer internationalisation committee",
        "basic understanding",
        "Authorization is needed",
        "authorization: none",
        "GPIO pin 13",
        "the pin is 13",
        "pin: 7",
        "pinned: 2024",
        "login as ada",
        "curl -s https://x.example",
        "curl -u $USER:$PASS https://x.example",
        "mysql --password",
        "--token",
        "sk-learn pipelines",
        "sk-estimator-based-approach-to-learning",
        "ghp_short",
        "the npm_config_registry variable",
        "xoxo, Ada",
        "xai-grok is a model",
        "SG. 12. Abend",
        "AKIA is the prefix of access keys",
        "AIza is the prefix of keys",
        "glpat- tokens begin so",
        "hf_hub_download",
        "eyJ is how a JWT begins",
        "the hvs. prefix",
        "key-value store",
        "cio is a title",
        "patience",
        "pattern.matching",
        "Kiwi 🥝 costs 3.50",
        "东京的密码学会议",
        "这个密码很安全",
        "Der Schlüssel liegt unter der Matte",
        "la clé est ici",
        "-----BEGIN CERTIFICATE-----",
        "the private key is on the token robot",
        "PRIVATE KEY handling guide",
        "getUserAccessTokenFromRequest",
        "the access_token_provider_v2 module",
        "secret-santa-2026-planning-committee-notes",
        "token-bucket-rate-limiter-v2-design-2026",
        "passport: C01X00T47",
        "compass: north",
        "bypass: enabled1",
        "passing: 99%",
        "Pass: 12, fail: 3",
        "passed: 120",
        "passengers: 12345",
        "the pass is closed: B500",
        "license key policy: yearly",
        "shared secret handshake",
        "the account key is a field",
        "master key of the building: Dora has it",
        "auth key exchange",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.extend([
        format!("commit {hash} fixes the token bucket"),
        format!("the token bucket was fixed in {hash}"),
        format!("the secret rotation landed with {hash}, see the log"),
        format!("sha256:{sha256}"),
        format!("password hashing moved: {sha256}"),
        format!("checksum {}", hex(32)),
        "id 550e8400-e29b-41d4-a716-446655440000".to_owned(),
        "the token ring is 550e8400-e29b-41d4-a716-446655440000".replace("is ", "has id "),
        format!("![logo](data:image/png;base64,{image})"),
        format!("token logo: ![logo](data:image/png;base64,{image})"),
        format!("integrity=\"sha512-{}\"", fill(ALNUM, 86, 4)),
        "0x52908400098527886E0F7030069857D2E4169EE7".to_owned(),
        "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq".to_owned(),
        "ISBN 978-3-16-148410-0, DOI 10.1000/182, +49 30 901820".to_owned(),
        "IBAN in prose: the account DE02".to_owned(),
        "v1.2.3-rc.4+build.567 of crate serde_json".to_owned(),
        "/usr/lib/x86_64-linux-gnu/libssl.so.3".to_owned(),
        "C:\\Users\\ada\\passwords.kdbx".to_owned(),
        "2026-11-30T14:05:00.123456Z".to_owned(),
        "[redacted: password] and [redacted: aws access key]".to_owned(),
    ]);
    for number in 0..60 {
        texts.push(format!("commit {} of the api", fill(HEX, 40, 100 + number)));
    }
    texts
}
