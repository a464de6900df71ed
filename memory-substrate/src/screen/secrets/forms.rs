//! Secrets that are known by their form.
//!
//! Each row is one issuer's: what it is, a string that every one of them contains, and the expression. Lengths are
//! lower bounds where issuers have changed them, and a row without a telling prefix does not belong here.

use super::{Found, Rule, looks};

/// What it is, a part that is always there, the expression.
type Form = (&'static str, &'static [&'static str], &'static str);

const FORMS: &[Form] = &[
    (
        "aws access key",
        &["akia", "asia", "abia", "acca"],
        // The others begin words, and the last one stretches of genes.
        r"(?:AKIA[A-Z0-9]{16}|(?<secret_with_digit>(?:ASIA|ABIA|ACCA)[A-Z0-9]{16}))(?-u:\b)",
    ),
    (
        "github token",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
        r"gh[pousr]_[A-Za-z0-9]{20,}",
    ),
    (
        "github token",
        &["github_pat_"],
        r"github_pat_[A-Za-z0-9_]{20,}",
    ),
    (
        "gitlab token",
        &[
            "glpat-", "gldt-", "glptt-", "glrt-", "glcbt-", "glft-", "glsoat-", "glimt-",
            "glagent-", "gloas-",
        ],
        r"gl(?:pat|dt|ptt|rt|cbt|ft|soat|imt|agent|oas)-[A-Za-z0-9_.\-]{16,}",
    ),
    (
        "slack token",
        &["xox"],
        r"(?<secret_with_digit>xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9\-]{10,})",
    ),
    ("slack token", &["xapp-"], r"xapp-[0-9]-[A-Za-z0-9\-]{16,}"),
    (
        "webhook address",
        &["hooks.slack.com", "discord", "webhook.office.com"],
        r"https://(?:hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/+_\-]{20,}|(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks/[0-9]{10,}/[A-Za-z0-9_\-]{20,}|[a-z0-9\-]+\.webhook\.office\.com/webhookb2/[A-Za-z0-9@/\-]{30,})",
    ),
    (
        "stripe key",
        &["_live_", "_test_"],
        r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}",
    ),
    ("signing secret", &["whsec_"], r"whsec_[A-Za-z0-9+/=]{20,}"),
    ("google api key", &["aiza"], r"AIza[A-Za-z0-9_\-]{30,}"),
    (
        "google oauth token",
        &["ya29."],
        r"ya29\.[A-Za-z0-9_\-]{20,}",
    ),
    (
        "google client secret",
        &["gocspx-"],
        r"GOCSPX-[A-Za-z0-9_\-]{20,}",
    ),
    (
        "anthropic api key",
        &["sk-ant-"],
        r"sk-ant-[A-Za-z0-9_\-]{16,}",
    ),
    (
        "openrouter api key",
        &["sk-or-"],
        r"sk-or-(?:v1-)?[a-f0-9]{32,}",
    ),
    (
        "openai api key",
        &["sk-proj-", "sk-svcacct-", "sk-admin-"],
        r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_\-]{16,}",
    ),
    ("openai api key", &["sk-"], r"sk-[A-Za-z0-9]{20,}"),
    ("xai api key", &["xai-"], r"xai-[A-Za-z0-9]{30,}"),
    ("groq api key", &["gsk_"], r"gsk_[A-Za-z0-9]{30,}"),
    ("perplexity api key", &["pplx-"], r"pplx-[A-Za-z0-9]{30,}"),
    (
        "hugging face token",
        &["hf_", "api_org_"],
        r"(?:hf|api_org)_[A-Za-z0-9]{30,}",
    ),
    ("replicate token", &["r8_"], r"r8_[A-Za-z0-9]{30,}"),
    (
        "databricks token",
        &["dapi"],
        r"dapi[a-f0-9]{32}(?:-[0-9])?(?-u:\b)",
    ),
    ("npm token", &["npm_"], r"npm_[A-Za-z0-9]{30,}"),
    ("pypi token", &["pypi-"], r"pypi-[A-Za-z0-9_\-]{50,}"),
    ("rubygems token", &["rubygems_"], r"rubygems_[a-f0-9]{32,}"),
    ("crates.io token", &["cio"], r"cio[A-Za-z0-9]{32}(?-u:\b)"),
    (
        "docker token",
        &["dckr_"],
        r"dckr_(?:pat|oat)_[A-Za-z0-9_\-]{20,}",
    ),
    (
        "sendgrid api key",
        &["sg."],
        r"SG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}",
    ),
    ("mailgun api key", &["key-"], r"key-[a-f0-9]{32}(?-u:\b)"),
    (
        "mailchimp api key",
        &["-us"],
        r"[a-f0-9]{32}-us[0-9]{1,2}(?-u:\b)",
    ),
    ("twilio api key", &["sk"], r"SK[a-f0-9]{32}(?-u:\b)"),
    (
        "digitalocean token",
        &["dop_v1_", "doo_v1_", "dor_v1_"],
        r"do[por]_v1_[a-f0-9]{40,}",
    ),
    (
        "fly.io token",
        &["fo1_", "fm2_"],
        r"(?:fo1|fm2)_[A-Za-z0-9_+/=,\-]{30,}",
    ),
    ("netlify token", &["nfp_"], r"nfp_[A-Za-z0-9]{30,}"),
    (
        "linear api key",
        &["lin_"],
        r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}",
    ),
    ("notion token", &["ntn_"], r"ntn_[A-Za-z0-9]{30,}"),
    ("notion token", &["secret_"], r"secret_[A-Za-z0-9]{40,}"),
    ("figma token", &["figd_"], r"figd_[A-Za-z0-9_\-]{20,}"),
    (
        "atlassian token",
        &["atatt3", "atctt3"],
        r"AT[AC]TT3[A-Za-z0-9_\-=]{30,}",
    ),
    (
        "postman api key",
        &["pmak-"],
        r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
    ),
    (
        "shopify token",
        &["shpat_", "shpca_", "shppa_", "shpss_"],
        r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32,}",
    ),
    (
        "square token",
        &["sq0"],
        r"sq0(?:atp|csp|idp)-[A-Za-z0-9_\-]{20,}",
    ),
    (
        "square token",
        &["eaaa"],
        r"(?<secret_unpadded>EAAA[A-Za-z0-9_\-]{50,})",
    ),
    (
        "paypal token",
        &["access_token$"],
        r"access_token\$(?:production|sandbox)\$[A-Za-z0-9]{16}\$[a-f0-9]{32}",
    ),
    (
        "telegram bot token",
        &[":aa"],
        r"[0-9]{8,10}:AA[A-Za-z0-9_\-]{32,34}",
    ),
    (
        "discord bot token",
        &["."],
        r"[MNO][A-Za-z0-9_\-]{23,27}\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27,40}",
    ),
    (
        "vault token",
        &["hvs.", "hvb.", "hvr."],
        r"hv[sbr]\.[A-Za-z0-9_\-]{20,}",
    ),
    (
        "terraform token",
        &[".atlasv1."],
        r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_\-=]{30,}",
    ),
    (
        "doppler token",
        &["dp."],
        r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_\-]{2,35}\.)?[A-Za-z0-9]{30,}",
    ),
    (
        "grafana token",
        &["glsa_", "glc_"],
        r"(?:glsa|glc)_[A-Za-z0-9_+/=]{30,}",
    ),
    (
        "new relic api key",
        &["nrak-", "nrjs-", "nrii-"],
        r"NR(?:AK|JS|II)-[A-Za-z0-9_\-]{19,}",
    ),
    (
        "sentry token",
        &["sntrys_", "sntryu_"],
        r"sntry[su]_[A-Za-z0-9_+/=]{30,}",
    ),
    (
        "planetscale token",
        &["pscale_"],
        r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.\-=]{30,}",
    ),
    (
        "supabase token",
        &["sbp_", "sb_secret_"],
        r"(?:sbp_[a-f0-9]{30,}|sb_secret_[A-Za-z0-9_\-]{20,})",
    ),
    (
        "tailscale key",
        &["tskey-"],
        r"tskey-(?:auth|api|client|scim|webhook)-[A-Za-z0-9\-]{16,}",
    ),
    (
        "age secret key",
        &["age-secret-key-1"],
        r"AGE-SECRET-KEY-1[A-Z0-9]{40,}",
    ),
    (
        "1password token",
        &["ops_eyj"],
        r"ops_eyJ[A-Za-z0-9_+/=\-]{40,}",
    ),
    (
        "dynatrace token",
        &["dt0c01."],
        r"dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{50,}",
    ),
    (
        "airtable token",
        &["pat"],
        r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}",
    ),
    ("buildkite token", &["bkua_"], r"bkua_[a-f0-9]{40}"),
    ("pulumi token", &["pul-"], r"pul-[a-f0-9]{40}(?-u:\b)"),
    ("heroku api key", &["hrku-"], r"HRKU-[A-Za-z0-9_\-]{30,}"),
    (
        "json web token",
        &["eyj"],
        r"eyJ[A-Za-z0-9_\-]{8,}\.eyJ[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]*)?",
    ),
];

/// What begins and ends a private key.
const EDGE: &str = "[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----";

/// What ends one of its lines, with what code, quotes and comments put around lines.
const LINE_END: &str = r#"[ \t>"'`+,;|#*.\\]*(?:\r?\n|\\n|\\r)(?:[\s>"'`+,;|#*.\\]|\\[nrt])*"#;

/// A line before the key itself, such as `Proc-Type: 4,ENCRYPTED`. No other key begins in it, or every key on the way
/// would be read as far as the last.
const HEADER: &str = r"[A-Za-z][A-Za-z\-]{2,30}: (?:[^\n\\\-]|-[^\n\\\-]){0,200}";

/// Returns the expression for private keys in armour.
///
/// One is made of nothing but lines of its own kind, so that a note between the beginning of one key and the end of
/// another is kept. One that was cut off has no end, and what looks like its lines goes. A beginning alone is no key.
fn private_key() -> String {
    // Keys that lost their line ends have blanks instead, and then only what is long is no word.
    let line = format!(r"(?:{HEADER}|[A-Za-z0-9+/=]+(?: +[A-Za-z0-9+/=]{{16,}})*)");
    let whole = format!(
        r"(?:{LINE_END}{line}| +[A-Za-z0-9+/=]{{16,}})+?(?:{LINE_END}| +)?(?:[A-Za-z0-9+/=]{{1,80}} *)?-----END {EDGE}"
    );
    let cut = format!(
        r"(?:{LINE_END}{HEADER})*(?:{LINE_END}[A-Za-z0-9+/]{{16,}}={{0,2}}| +[A-Za-z0-9+/]{{40,}}={{0,2}})+(?:{LINE_END}(?:[A-Za-z0-9+/]{{1,15}}={{1,2}}|=[A-Za-z0-9+/]{{4}}))?"
    );
    format!("-----BEGIN {EDGE}(?:{whole}|{cut})")
}

/// Accepts what has the form, where the form alone tells enough.
fn formed(found: &Found<'_>) -> Option<usize> {
    let is_one = match found.group {
        "secret_with_digit" => found.value.bytes().any(|byte| byte.is_ascii_digit()),
        // Pictures and programs are full of zeros, which are written so.
        "secret_unpadded" => !found.value.contains("AAAAAA"),
        _ => true,
    };
    is_one.then_some(found.value.len())
}

/// Returns the rules, the surest first.
pub(super) fn rules() -> Vec<Rule> {
    let mut rules = vec![Rule {
        what: "private key",
        hints: &["private key"],
        pattern: private_key(),
        accept: formed,
    }];
    rules.extend(FORMS.iter().map(|(what, hints, pattern)| Rule {
        what,
        hints,
        // Bounded in bytes, because in text without blanks a key has letters of another script right beside it.
        pattern: format!(r"(?-u:\b)(?:{pattern})"),
        accept: formed,
    }));
    rules.push(Rule {
        what: "password in an address",
        hints: &["://"],
        pattern: r#"(?-u:\b)[A-Za-z][A-Za-z0-9+.\-]{1,30}://[^\s/:@"'<>]{0,100}:(?<secret>[^\s/@"'<>]{1,200})@[^\s]"#.to_owned(),
        accept: |found| (!looks::is_stand_in(found.value)).then_some(found.value.len()),
    });
    rules
}
