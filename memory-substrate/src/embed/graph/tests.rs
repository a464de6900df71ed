//! Tests of the graph writer on a tiny made-up model: what is written, and what is refused.

use super::weights::tests::file;
use super::*;

const CONFIG: &str = r#"{"model_type":"bert","hidden_size":4,"intermediate_size":8,"num_attention_heads":2,
    "num_hidden_layers":1,"max_position_embeddings":6,"type_vocab_size":2,"vocab_size":10,
    "layer_norm_eps":1e-12,"hidden_act":"gelu"}"#;

/// Returns a weight file for `CONFIG`, its tensor names behind `prefix`.
fn tiny(prefix: &str) -> Vec<u8> {
    let layer = "encoder.layer.0";
    let mut shapes = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![10, 4]),
        (
            "embeddings.position_embeddings.weight".to_owned(),
            vec![6, 4],
        ),
        (
            "embeddings.token_type_embeddings.weight".to_owned(),
            vec![2, 4],
        ),
    ];
    for norm in [
        "embeddings".into(),
        format!("{layer}.attention.output"),
        format!("{layer}.output"),
    ] {
        shapes.push((format!("{norm}.LayerNorm.weight"), vec![4]));
        shapes.push((format!("{norm}.LayerNorm.bias"), vec![4]));
    }
    for (name, rows, columns) in [
        ("attention.self.query", 4, 4),
        ("attention.self.key", 4, 4),
        ("attention.self.value", 4, 4),
        ("attention.output.dense", 4, 4),
        ("intermediate.dense", 8, 4),
        ("output.dense", 4, 8),
    ] {
        shapes.push((format!("{layer}.{name}.weight"), vec![rows, columns]));
        shapes.push((format!("{layer}.{name}.bias"), vec![rows]));
    }
    let mut offset = 0;
    let mut header = serde_json::Map::new();
    for (name, shape) in shapes {
        let end = offset + 4 * shape.iter().product::<usize>();
        let entry =
            serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [offset, end]});
        header.insert(format!("{prefix}{name}"), entry);
        offset = end;
    }
    file(&serde_json::Value::Object(header).to_string(), offset)
}

fn encode(config: &str, file: &[u8]) -> Result<EncoderGraph, GraphError> {
    bert_encoder(config.as_bytes(), file, file.len() as u64, "weights")
}

fn check_refused(from: &str, to: &str, expected: &str) {
    assert!(CONFIG.contains(from));
    let error = encode(&CONFIG.replace(from, to), &tiny(""))
        .unwrap_err()
        .to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_prefixed_checkpoint_gives_the_same_operators() {
    let plain = encode(CONFIG, &tiny("")).unwrap();
    let nested = encode(CONFIG, &tiny("bert.")).unwrap();
    assert_eq!(plain.hidden, 4);
    let count = |bytes: &[u8], word: &[u8]| {
        bytes
            .windows(word.len())
            .filter(|window| *window == word)
            .count()
    };
    for graph in [&plain, &nested] {
        // Six projections, three normalisations, and one external place per weight tensor.
        assert_eq!(count(&graph.onnx, b"transB"), 6);
        assert_eq!(count(&graph.onnx, b"epsilon"), 3);
        assert_eq!(count(&graph.onnx, b"location"), 21);
    }
}

#[test]
fn other_architectures_are_refused() {
    check_refused("\"bert\"", "\"roberta\"", "roberta");
    check_refused("\"gelu\"", "\"relu\"", "relu");
    check_refused(
        "\"hidden_act\"",
        "\"position_embedding_type\":\"relative_key\",\"hidden_act\"",
        "relative_key",
    );
    check_refused(
        "\"num_attention_heads\":2",
        "\"num_attention_heads\":3",
        "3 heads",
    );
    check_refused("\"vocab_size\":10", "\"vocab_size\":11", "word_embeddings");
    check_refused(
        "\"num_hidden_layers\":1",
        "\"num_hidden_layers\":2",
        "encoder.layer.1",
    );
    check_refused("\"vocab_size\":10,", "", "vocab_size");
}

#[test]
fn a_cut_weight_file_is_refused() {
    let mut weights = tiny("");
    weights.pop();
    assert!(encode(CONFIG, &weights).is_err());
}
