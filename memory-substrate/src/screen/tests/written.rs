//! How people write down secrets, beyond the plainest ways.

use super::*;

fn check_kept(text: &str) {
    let kept = Screened {
        text: text.to_owned(),
        findings: Vec::new(),
    };
    assert_eq!(screen(text), kept);
    assert_eq!(redact(text), kept);
    assert_eq!(inspect(text), [], "{text}");
}

#[test]
fn passwords_are_found_however_they_are_set() {
    let hash = hex(32);
    for (text, expected) in [
        (
            "**Password:** hunter2",
            "**Password:** [redacted: password]",
        ),
        (
            "**Password**: hunter2",
            "**Password**: [redacted: password]",
        ),
        (
            "__Password__: hunter2",
            "__Password__: [redacted: password]",
        ),
        (
            "The **password** is hunter2.",
            "The **password** is [redacted: password].",
        ),
        (
            "the password for root is **hunter2**",
            "the password for root is [redacted: password]",
        ),
        (
            "Password for Netflix: hunter2",
            "Password for Netflix: [redacted: password]",
        ),
        (
            "Passwort für Netflix: geheim77",
            "Passwort für Netflix: [redacted: password]",
        ),
        (
            "password for localhost:5432 is hunter2",
            "password for localhost:5432 is [redacted: password]",
        ),
        (
            &format!("API key for X: {hash}"),
            "API key for X: [redacted: key or token]",
        ),
        (
            &format!("- **API key**: {hash}"),
            "- **API key**: [redacted: key or token]",
        ),
        (
            r#"{\"password\": \"hunter2\"}"#,
            r#"{\"password\": \"[redacted: password]\"}"#,
        ),
        (
            r#""{\\\"password\\\":\\\"hunter2\\\"}""#,
            r#""{\\\"password\\\":\\\"[redacted: password]\\\"}""#,
        ),
        ("password: @dmin123", "password: [redacted: password]"),
        ("password: #Secret99", "password: [redacted: password]"),
        ("password: P(ss99", "password: [redacted: password]"),
        (
            "mysql --password \"swordfish\" -h db",
            "mysql --password \"[redacted: password]\" -h db",
        ),
        (
            "mysql --password=swordfish -h db",
            "mysql --password=[redacted: password] -h db",
        ),
        ("The PIN code is 4711.", "The PIN code is [redacted: pin]."),
    ] {
        assert_eq!(screen(text).text, expected, "{text}");
        assert_eq!(redact(text).text, expected, "{text}");
        assert_eq!(screen(expected).text, expected);
    }
}

#[test]
fn a_message_loses_its_secrets_even_where_hidden_characters_divide_them() {
    let token = format!("AKIA{}", fill(UPPER, 16, 7));
    let (head, tail) = token.split_at(7);
    for (text, expected) in [
        (
            format!("\u{200B}é {head}\u{200B}{tail}\u{200B}, x"),
            "\u{200B}é [redacted: aws access key]\u{200B}, x",
        ),
        (
            "pass\u{200B}word: hunter2 and\u{202E} more".to_owned(),
            "pass\u{200B}word: [redacted: password] and\u{202E} more",
        ),
        (
            format!("a\u{2028}b\u{85}\u{FEFF}{head}\u{E0067}\u{E0067}{tail} c"),
            "a\u{2028}b\u{85}\u{FEFF}[redacted: aws access key] c",
        ),
    ] {
        let redacted = redact(&text);
        assert_eq!(redacted.text, expected, "{text:?}");
        assert_eq!(redacted.findings.len(), 1);
        assert_eq!(redact(expected).text, expected);
    }
}

#[test]
fn a_key_that_was_cut_off_takes_its_lines_along_and_no_others() {
    let (begin, end) = (
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----END RSA PRIVATE KEY-----",
    );
    let line = alnum(64);
    for body in [
        format!(
            "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{}\n\n{line}\n{line}",
            hex(32)
        ),
        format!("Version: GnuPG v2\n\n{line}\n{line}\n=AbCd"),
        format!("\r\n{line}\r\n{line}"),
        format!("  {line}\n  {line}"),
    ] {
        let cut = format!("{begin}\n{body}\n\nA note of its own.");
        assert_eq!(
            screen(&cut).text,
            "[redacted: private key]\n\nA note of its own."
        );
        let whole = format!("{begin}\n{body}\n{end}\nMore.");
        assert_eq!(screen(&whole).text, "[redacted: private key]\nMore.");
        let quoted = format!("> {}", whole.replace('\n', "\n> "));
        assert_eq!(screen(&quoted).text, "> [redacted: private key]\n> More.");
        let cut = format!("> {}", cut.replace('\n', "\n> "));
        assert_eq!(
            screen(&cut).text,
            "> [redacted: private key]\n> \n> A note of its own."
        );
    }
    let far = format!(
        "{begin}\n{line}\n\nProse between, which\nis kept.\n\nIt ends with {end}, as all do."
    );
    assert_eq!(
        screen(&far).text,
        format!(
            "[redacted: private key]\n\nProse between, which\nis kept.\n\nIt ends with {end}, as all do."
        )
    );
    let flat = format!("{begin} {line} {line} kk= {end} and more");
    assert_eq!(screen(&flat).text, "[redacted: private key] and more");
    let code = format!("\"{begin}\\n\" +\n  \"{line}\\n\" +\n  \"{end}\\n\"");
    assert_eq!(screen(&code).text, "\"[redacted: private key]\\n\"");
}

#[test]
fn ordinary_texts_about_secrets_are_left_alone() {
    for text in [
        "use the --password flag",
        "use the --password option to set it",
        "pass --token option to the command",
        "--secret and nothing else",
        "--api-key or --token",
        "Authorization: required for all",
        "Authorization: Administrators only",
        "Authorization: Bearer authentication is used",
        "Authorization: Basic understanding of it",
        "PIN code: 110001",
        "Pin: 2026-11-30",
        "pin: 2026/11/30",
        "primer ACCAGTTGCATTGCAACGTA anneals",
        "xoxo-from-your-grandma",
        "ASIAPACIFICREGIONALX",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "Merge 9fceb02 into a1b2c3d",
        "id: 123e4567-e89b-12d3-a456-426614174000",
        "password reset id 123e4567-e89b-12d3-a456-426614174000 was sent",
        "https://shop.example/search?q=red+shoes&page=2&sort=price&session=abc",
        "https://example.com/reset-password?lang=de&step=2",
        "https://x.example/docs/api-key-rotation-2026-guide#tokens",
        "Call +49 30 901820 or +1 (555) 010-9999",
        "IBAN DE89 3704 0044 0532 0130 00 for the rent",
        "IBAN: DE89370400440532013000",
        "fn set_password(password: &str, hash: &[u8; 32]) -> Result<(), Error>",
        "let password = rpassword::prompt_password(\"Password: \")?;",
        "password = hash(pw2, 3)",
        "password: encrypt(secret,",
        "password = getpass.getpass()",
        "const token = req.headers['x-token'];",
        "if (password !== other.password) return;",
        "password: z.string().min(8).max(64)",
        "password_confirmation: bool",
        "| password | string | required |",
        "| Field | Type |\n|---|---|\n| token | string |",
        "The password is **required**.",
        "The password is *not* stored",
        "**Password:** required",
        "**Password:** see the vault",
        "**Token**: string",
        "Password for the admin: see the vault",
        "Password for the wifi: ask Dora",
        "API key for billing: in the vault",
        "Token for parsing: identifier",
        "the password of a user: never store it",
        "Password in the docs: must be long",
        "a password on paper: bad idea",
        "Das Passwort muss mindestens 12 Zeichen haben.",
        "Das Passwort ist abgelaufen",
        "Das Kennwort wurde geändert",
        "Mein Passwort habe ich vergessen.",
        "Passwort vergessen? Hier klicken",
        "Hasło jest wymagane",
        "Hasło musi mieć co najmniej 8 znaków",
        "Zapomniałem hasła do banku",
        "Le mot de passe est obligatoire",
        "La contraseña es obligatoria",
        "A senha é obrigatória",
        "пароль обязателен",
        "パスワードは必須です",
        "密码是必填项",
        "the secret is to whisk it for 5min",
        "The key to success: persistence",
        "Public key: ed25519",
        "Private key for signing: RSA4096",
        "private key type: ECDSA-P256",
        "encryption key size: 256",
        "access key: left",
        "tokens: 1,024 in and 512 out",
        "token 3 of 12",
        "\"max_tokens\": 4096, \"total_tokens\": 12",
        "password: &'a str",
        "password: @Column",
        "password: #/definitions/Password",
        "password = @password",
        "password: *ptr",
        "self.key_password = key_password",
        "password: Optional[HiddenText] = None",
        "key_password=certs[0][2],",
        "passwd = passwd or ''",
        "password: typing.Optional[bytes],",
        "if passwd: self.auth_cache[key] = (user, passwd)",
        "`libc::passwd::pw_gecos` is there",
        "the password (12 characters) is fine",
        "password manager: Bitwarden",
        "password manager: KeePassXC",
        "password generator: pwgen 16",
        "Password strength: 80%",
        "Passwords: 3 attempts left",
        "password length: 12",
        "password_min_length = 12",
        "password: min 8 characters",
        "password hint: my dog",
        "Passphrase: 6 words or more",
        "git push --token-file ~/.tok",
        "docker login --password-stdin",
        "docker login -u ada --password-stdin < pw.txt",
        "-----BEGIN PRIVATE KEY----- is how a key begins",
        "-----BEGIN PUBLIC KEY-----",
        "SHA256:uNiVztksCsDhcc0u9e8BrqJXVUcz9DTmzJR7wD2o3kA",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ada@host",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
        "AAAA/EAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "The token ring is in room 12, next to the keyboard-and-mouse-cabinet-2",
        "discord.com/channels/1234567890/1234567890",
        "Version 2026.11.30-beta.2+build.991",
        "The cvc of the article: see below",
        "CVC: see the card",
        "GPIO pin: 17",
        "pin = 13",
        "PIN attempts: 3",
        "order 1234567890 of 2026",
        "x-request-id: 7b1c9b1e-2c57-4b34-8c21-0f5c6d7e8f90",
        "ETag: \"33a64df551425fcc55e4d42a148795d9f25f89d4\"",
        "Set-Cookie: lang=de; Path=/",
        "session token lifetime: 3600s",
        "auth token expiry: 2026-11-30",
        "service key: A-12",
        "Das Passwort ist falsch",
        "Das Passwort ist erforderlich.",
        "Das Passwort lautet anders als früher",
        "Le mot de passe est incorrect",
        "Le mot de passe est trop court",
        "El token es válido por 15min",
        "La contraseña es incorrecta",
        "密码是必须的而且至少8位",
        "パスワードは8文字以上です",
        "비밀번호는 필수입니다",
        "비밀번호: 필수입니다",
        "密码：请联系管理员",
    ] {
        check_kept(text);
    }
}

#[test]
fn ordinary_writing_is_left_alone() {
    for text in [
        "👨‍👩‍👧‍👦 and 🧑🏽‍🤝‍🧑🏿 and 👁️‍🗨️",
        "🏴‍☠️ 🏳️‍⚧️ 🐻‍❄️ 🐦‍⬛",
        "🇩🇪🇵🇱🇨🇦 0️⃣9️⃣",
        "✔︎ ✔️ ©️ ™️ ↔️",
        "نمی‌دانم کتاب‌ها",
        "র‍্যাব ক্‍ষ",
        "ක්‍රියා",
        "Hebrew: שלום\u{200F} (hello)\u{200E}, Arabic: مرحبا\u{61C}!",
        "\u{182E}\u{1823}\u{1829}\u{182D}\u{180E}\u{1820}",
        "\u{1820}\u{180B}\u{1828}\u{180C}",
        "∀x∈ℝ: ⌈x⌉ − x ≥ 0 ∧ ∑ᵢ aᵢ² ≤ ∫₀¹ f dx",
        "𝄞 ♯ ♭ 𝅘𝅥𝅮",
        "café naïve Zażółć gęślą jaźń Straße",
        "ไทย\u{200B}ภาษา မြန်မာ\u{200B}စာ",
        "葛󠄀飾区",
        "a soft\u{A0}space, an em — dash, “quotes”, ‚other‘ ones…",
        "\u{1112}\u{1161}\u{11AB} is composed elsewhere"
            .nfc()
            .collect::<String>()
            .as_str(),
    ] {
        check_kept(text);
    }
}

#[test]
fn a_vowel_separator_stays_only_inside_a_word() {
    assert_eq!(screen("a\u{180E}b").text, "ab");
    assert_eq!(screen("\u{1820}\u{180E} x").text, "\u{1820} x");
    assert_eq!(
        screen("\u{1820}\u{180E}\u{180E}\u{1820}").text,
        "\u{1820}\u{180E}\u{1820}"
    );
}
