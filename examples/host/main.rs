//! A chat loop that remembers: the smallest host that embeds Strata, line by line.
//!
//! It reads messages from standard input, shows what would go into the prompt, answers with a model that only echoes, and
//! tells Strata what became of the turn. Whoever has a real model puts the call in the place of [`answer`]; nothing else
//! has to change. `README.md` beside this file says how to run it and what to look at.

use std::error::Error;
use std::io::{BufRead, Write};

use strata::{Access, InitOptions, Injection, Strata, StrataOptions, Tier, TurnEnd, TurnInput};

/// The memory this host speaks with. One assistant is one memory.
const ASSISTANT: &str = "example-host";

/// The conversation. A host with many users has one identifier for each of their conversations.
const CONVERSATION: &str = "console";

/// Strata needs tokio's multi-threaded runtime, since it works on other threads while a turn waits.
#[tokio::main(flavor = "multi_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // Folders and plugins by the usual rules: `STRATA_HOME`, `STRATA_PLUGIN_DIR`, and the model that `setup` provisioned.
    // A host may as well fill in `StrataOptions` by itself, and then nothing is read from the environment.
    let environment = std::env::vars().collect();
    let options = StrataOptions::from_environment(environment, None, None)?;
    // Messages come from standard input, so that a script can be piped in.
    chat(
        options,
        std::io::stdin().lock(),
        &mut std::io::stdout().lock(),
    )
    .await
}

/// Chats until the input ends.
pub(crate) async fn chat(
    options: StrataOptions,
    input: impl BufRead,
    output: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    // Opening a home loads nothing heavy: the stores and the model wait for the first call that needs them.
    let strata = Strata::open(options)?;
    // An assistant is made once and stays. A new one begins on tier v3.
    if !strata.assistants().await?.iter().any(|id| id == ASSISTANT) {
        strata.init(ASSISTANT, InitOptions::default()).await?;
    }
    // One process at a time writes to an assistant; a second one is told who holds it.
    let assistant = strata.assistant(ASSISTANT, Access::ReadWrite).await?;
    // Optional: loads model, index and plugin now, so that the first turn does not wait for them.
    assistant.warm().await?;

    for line in input.lines() {
        let message = line?;
        // A line such as `/tier v2` changes the settings while the host runs. `strata tier set` in another terminal, or an
        // editor, does the same: settings are looked at whenever a turn begins, and nothing has to be restarted.
        if let Some(name) = message.strip_prefix("/tier ") {
            let tier: Tier = name.trim().parse()?;
            assistant.set_tier(tier).await?;
            writeln!(output, "(tier {tier} from the next turn on)")?;
            continue;
        }
        if message.trim().is_empty() {
            continue;
        }
        writeln!(output, "you: {message}")?;

        // 1. Before the model is called: what should it see with this message? This never fails. `owner` says that the
        //    owner of the memory speaks; a host with strangers says so with `TurnInput::new` and another authority.
        let input = TurnInput::owner(CONVERSATION, message.clone());
        let injection = assistant.begin_turn(input).await;
        show(&injection, output)?;

        // 2. The blocks go around the message, in the order they have. Earlier messages stay as they were sent, blocks
        //    included, so that a provider's prompt cache stays valid.
        let prompt = injection.prompt(&message);

        // 3. Now that the blocks are really in a prompt, say so: only then does Strata count them as seen. A host that gives
        //    a turn up leaves this out, and the same things are shown again next time.
        assistant.attached(&injection).await?;

        // 4. The model answers. A host that streams goes on with step 5 when the stream has ended.
        let reply = answer(&prompt, &message);
        writeln!(output, "assistant: {reply}")?;

        // 5. The turn is over: message and reply become part of the conversation. The injection is dropped with the end of
        //    the loop's body, which lets go of the tier instance that served the turn.
        assistant
            .end_turn(&injection, TurnEnd::reply(reply))
            .await?;
    }

    // What serves and what was configured are two facts, and `stats` tells both, with what served the turns so far.
    let stats = assistant.stats().await?;
    let configured = stats.tier.configured;
    let serving = stats
        .tier
        .serving
        .map_or_else(|| "nothing".to_owned(), |serving| serving.plugin);
    writeln!(
        output,
        "(tier {configured} is configured, {serving} serves)"
    )?;
    for (tier, turns) in stats.turns.by_tier.iter().filter(|(_, turns)| **turns > 0) {
        writeln!(output, "(turns with tier {tier}: {turns})")?;
    }
    Ok(())
}

/// Shows what goes into the prompt and what a user or operator should know.
fn show(injection: &Injection, output: &mut impl Write) -> std::io::Result<()> {
    let trace = &injection.trace;
    let serving = trace
        .serving
        .as_ref()
        .map_or("nothing", |serving| serving.plugin.as_str());
    writeln!(
        output,
        "[turn {}, tier {} configured, {serving} serves, {} tokens]",
        trace.turn, trace.configured, trace.used_tokens
    )?;
    for block in &injection.blocks {
        writeln!(output, "{}", block.wrapped())?;
    }
    // A turn without memory is still a turn. Why it has none stands here, under a code that a host can react to: `Error`
    // and `Warning` are worth showing to an operator, `Info` is good to know.
    for notice in &injection.notices {
        writeln!(
            output,
            "[{:?} {}: {}]",
            notice.severity, notice.code, notice.message
        )?;
    }
    Ok(())
}

/// Stands for a model: says how much of the prompt it saw beside the message.
fn answer(prompt: &str, message: &str) -> String {
    let more = prompt.len() - message.len();
    format!("You said {message:?}, and I saw {more} bytes of memory with it.")
}
