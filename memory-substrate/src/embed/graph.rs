//! Writes the ONNX graph of a BERT encoder around weights that stay in their safetensors file.
//!
//! The model is distributed as weights plus a configuration, while the runtime wants a graph. An architecture this
//! regular can be written down directly: the graph is some thirty kilobytes, is made in memory in about a millisecond,
//! and refers to the weights by offset, so no second copy of the model exists on disk and one checksum covers it.
//! Only standard operators are used (set 17), which leaves fusion to the runtime.
//!
//! Tokens of all texts run through the projections as one matrix, `[batch x tokens, hidden]`; only attention sees the
//! batch. That form lets every projection be a single `Gemm` that takes its weight as stored, untransposed.

mod proto;
mod weights;

use std::io::Read;

use serde::Deserialize;
use thiserror::Error;

use self::proto::{Attribute, Dimension, FLOAT, INT64, Message};
use self::weights::Weights;

/// Added to the score of a padding position; far enough below any score that its weight is exactly zero.
const MASKED: f32 = -1e9;

/// Why no graph can be written for a model.
#[derive(Debug, Error)]
pub(super) enum GraphError {
    /// The configuration describes another architecture. Use another model.
    #[error("the model configuration is not supported: {reason}")]
    Config {
        /// What is not supported.
        reason: String,
    },
    /// The weight file is damaged. Provision the model again.
    #[error("the header of the weight file cannot be read: {reason}")]
    Header {
        /// What is wrong with it.
        reason: String,
    },
    /// The weight file does not belong to the configuration. Provision the model again.
    #[error("the tensor `{name}` cannot be used: {reason}")]
    Tensor {
        /// Name of the tensor, without a prefix.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A finished graph.
#[derive(Debug)]
pub(super) struct EncoderGraph {
    /// The model in ONNX format, without weights.
    pub(super) onnx: Vec<u8>,
    /// Length of the vector of one token.
    pub(super) hidden: u32,
}

#[derive(Debug, Deserialize)]
struct Config {
    model_type: String,
    hidden_size: u32,
    intermediate_size: u32,
    num_attention_heads: u32,
    num_hidden_layers: u32,
    max_position_embeddings: u32,
    type_vocab_size: u32,
    vocab_size: u32,
    layer_norm_eps: f32,
    hidden_act: String,
    #[serde(default)]
    position_embedding_type: Option<String>,
    #[serde(default)]
    is_decoder: bool,
}

impl Config {
    fn parse(json: &[u8]) -> Result<Self, GraphError> {
        let refuse = |reason: String| Err(GraphError::Config { reason });
        let config: Self = match serde_json::from_slice(json) {
            Ok(config) => config,
            Err(error) => return refuse(error.to_string()),
        };
        if config.model_type != "bert" || config.is_decoder {
            return refuse(format!("`{}` is not a BERT encoder", config.model_type));
        }
        if config.hidden_act != "gelu" {
            return refuse(format!(
                "the activation `{}` is not `gelu`",
                config.hidden_act
            ));
        }
        if let Some(kind) = config
            .position_embedding_type
            .as_deref()
            .filter(|kind| *kind != "absolute")
        {
            return refuse(format!("the position embedding `{kind}` is not `absolute`"));
        }
        let heads = config.num_attention_heads;
        if heads == 0 || config.hidden_size == 0 || !config.hidden_size.is_multiple_of(heads) {
            return refuse(format!(
                "{heads} heads do not divide a hidden size of {}",
                config.hidden_size
            ));
        }
        Ok(config)
    }
}

/// Returns the graph of the encoder that `config` describes, over the weights in a safetensors file.
///
/// Only the header is read from `file`, which has `length` bytes in all; `location` is its name to the runtime.
pub(super) fn bert_encoder(
    config: &[u8],
    file: impl Read,
    length: u64,
    location: &str,
) -> Result<EncoderGraph, GraphError> {
    let config = Config::parse(config)?;
    let weights = Weights::read(file, length)?;
    let mut builder = Builder {
        weights: &weights,
        location,
        graph: Message::default(),
        names: 0,
    };
    builder.encoder(&config)?;

    let mut opset = Message::default();
    opset.bytes(1, b"").integer(2, 17);
    let mut model = Message::default();
    model
        .integer(1, 8)
        .bytes(2, b"strata")
        .message(7, &builder.graph)
        .message(8, &opset);
    Ok(EncoderGraph {
        onnx: model.into_bytes(),
        hidden: config.hidden_size,
    })
}

struct Builder<'a> {
    weights: &'a Weights,
    location: &'a str,
    graph: Message,
    names: usize,
}

impl Builder<'_> {
    fn encoder(&mut self, config: &Config) -> Result<(), GraphError> {
        let (hidden, heads) = (config.hidden_size, config.num_attention_heads);
        let Ok(size) = u16::try_from(hidden / heads) else {
            let reason = format!("a head of {} numbers is too long", hidden / heads);
            return Err(GraphError::Config { reason });
        };
        self.graph.bytes(2, b"bert-encoder");
        let tokens = [Dimension::Named("batch"), Dimension::Named("tokens")];
        for name in ["input_ids", "attention_mask", "token_type_ids"] {
            self.graph
                .message(11, &proto::value_info(name, INT64, &tokens));
        }
        let output = [tokens[0], tokens[1], Dimension::Fixed(hidden.into())];
        self.graph
            .message(12, &proto::value_info("last_hidden_state", FLOAT, &output));

        let words = self.weight(
            "embeddings.word_embeddings.weight",
            &[config.vocab_size, hidden],
        )?;
        let positions = self.weight(
            "embeddings.position_embeddings.weight",
            &[config.max_position_embeddings, hidden],
        )?;
        let kinds = self.weight(
            "embeddings.token_type_embeddings.weight",
            &[config.type_vocab_size, hidden],
        )?;

        // How many texts and tokens this call has, and the shapes that follow from it.
        let shape = self.node("Shape", &["input_ids"], &[]);
        let (zero, one, two) = (
            self.integers(&[0]),
            self.integers(&[1]),
            self.integers(&[2]),
        );
        let length = self.node("Slice", &[&shape, &one, &two], &[]);
        let head_sizes = self.integers(&[heads.into(), size.into()]);
        let split = self.node(
            "Concat",
            &[&shape, &head_sizes],
            &[Attribute::Integer("axis", 0)],
        );
        let row = self.integers(&[hidden.into()]);
        let whole = self.node("Concat", &[&shape, &row], &[Attribute::Integer("axis", 0)]);
        let flat = self.integers(&[-1, hidden.into()]);

        // A padding position gets `MASKED` added to its score in every head and row.
        let mask_axes = self.integers(&[1, 2]);
        let mask = self.node("Cast", &["attention_mask"], &[Attribute::Integer("to", 1)]);
        let (unit, masked) = (self.scalar(1.0), self.scalar(MASKED));
        let padding = self.node("Sub", &[&unit, &mask], &[]);
        let padding = self.node("Mul", &[&padding, &masked], &[]);
        let padding = self.node("Unsqueeze", &[&padding, &mask_axes], &[]);

        let word = self.node("Gather", &[&words, "input_ids"], &[]);
        let kind = self.node("Gather", &[&kinds, "token_type_ids"], &[]);
        let position = self.node("Slice", &[&positions, &zero, &length, &zero], &[]);
        let sum = self.node("Add", &[&word, &kind], &[]);
        let sum = self.node("Add", &[&sum, &position], &[]);
        let sum = self.node("Reshape", &[&sum, &flat], &[]);
        let mut state = self.norm(&sum, "embeddings.LayerNorm", config)?;

        let shapes = Shapes {
            split,
            flat,
            padding,
            scale: self.scalar(1.0 / f32::from(size).sqrt()),
        };
        for layer in 0..config.num_hidden_layers {
            state = self.layer(&state, &format!("encoder.layer.{layer}"), &shapes, config)?;
        }
        self.named_node("Reshape", &[&state, &whole], &[], "last_hidden_state");
        Ok(())
    }

    fn layer(
        &mut self,
        input: &str,
        at: &str,
        shapes: &Shapes,
        config: &Config,
    ) -> Result<String, GraphError> {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let mut heads = [const { String::new() }; 3];
        // Keys come out transposed, ready for the product with the queries.
        let orders = [
            ("query", [0, 2, 1, 3]),
            ("key", [0, 2, 3, 1]),
            ("value", [0, 2, 1, 3]),
        ];
        for (slot, (name, order)) in heads.iter_mut().zip(orders) {
            let flat = self.linear(
                input,
                &format!("{at}.attention.self.{name}"),
                hidden,
                hidden,
            )?;
            let split = self.node("Reshape", &[&flat, &shapes.split], &[]);
            *slot = self.node(
                "Transpose",
                &[&split],
                &[Attribute::Integers("perm", &order)],
            );
        }
        let [query, key, value] = heads;
        let scores = self.node("MatMul", &[&query, &key], &[]);
        let scores = self.node("Mul", &[&scores, &shapes.scale], &[]);
        let scores = self.node("Add", &[&scores, &shapes.padding], &[]);
        let weighted = self.node("Softmax", &[&scores], &[Attribute::Integer("axis", -1)]);
        let mixed = self.node("MatMul", &[&weighted, &value], &[]);
        let mixed = self.node(
            "Transpose",
            &[&mixed],
            &[Attribute::Integers("perm", &[0, 2, 1, 3])],
        );
        let mixed = self.node("Reshape", &[&mixed, &shapes.flat], &[]);
        let attended = self.linear(
            &mixed,
            &format!("{at}.attention.output.dense"),
            hidden,
            hidden,
        )?;
        let attended = self.node("Add", &[&attended, input], &[]);
        let attended = self.norm(
            &attended,
            &format!("{at}.attention.output.LayerNorm"),
            config,
        )?;

        let wide = self.linear(
            &attended,
            &format!("{at}.intermediate.dense"),
            inner,
            hidden,
        )?;
        let wide = self.gelu(&wide);
        let narrow = self.linear(&wide, &format!("{at}.output.dense"), hidden, inner)?;
        let narrow = self.node("Add", &[&narrow, &attended], &[]);
        self.norm(&narrow, &format!("{at}.output.LayerNorm"), config)
    }

    /// The exact form; the runtime recognises it and replaces it by one kernel.
    fn gelu(&mut self, input: &str) -> String {
        let (root, unit, half) = (
            self.scalar(std::f32::consts::SQRT_2),
            self.scalar(1.0),
            self.scalar(0.5),
        );
        let scaled = self.node("Div", &[input, &root], &[]);
        let curve = self.node("Erf", &[&scaled], &[]);
        let curve = self.node("Add", &[&curve, &unit], &[]);
        let product = self.node("Mul", &[input, &curve], &[]);
        self.node("Mul", &[&product, &half], &[])
    }

    fn linear(
        &mut self,
        input: &str,
        at: &str,
        rows: u32,
        columns: u32,
    ) -> Result<String, GraphError> {
        let weight = self.weight(&format!("{at}.weight"), &[rows, columns])?;
        let bias = self.weight(&format!("{at}.bias"), &[rows])?;
        Ok(self.node(
            "Gemm",
            &[input, &weight, &bias],
            &[Attribute::Integer("transB", 1)],
        ))
    }

    fn norm(&mut self, input: &str, at: &str, config: &Config) -> Result<String, GraphError> {
        let weight = self.weight(&format!("{at}.weight"), &[config.hidden_size])?;
        let bias = self.weight(&format!("{at}.bias"), &[config.hidden_size])?;
        let attributes = [
            Attribute::Integer("axis", -1),
            Attribute::Float("epsilon", config.layer_norm_eps),
        ];
        Ok(self.node("LayerNormalization", &[input, &weight, &bias], &attributes))
    }

    fn weight(&mut self, name: &str, shape: &[u32]) -> Result<String, GraphError> {
        let shape: Vec<u64> = shape.iter().copied().map(u64::from).collect();
        let place = self.weights.locate(name, &shape)?;
        let tensor = proto::external_tensor(name, &shape, self.location, &place);
        self.graph.message(5, &tensor);
        Ok(name.to_owned())
    }

    fn scalar(&mut self, value: f32) -> String {
        let name = self.name("constant");
        self.graph.message(
            5,
            &proto::inline_tensor(&name, FLOAT, &[], &value.to_le_bytes()),
        );
        name
    }

    fn integers(&mut self, values: &[i64]) -> String {
        let name = self.name("constant");
        let data: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.graph.message(
            5,
            &proto::inline_tensor(&name, INT64, &[values.len() as u64], &data),
        );
        name
    }

    fn node(&mut self, operator: &str, inputs: &[&str], attributes: &[Attribute<'_>]) -> String {
        let output = self.name(operator);
        self.named_node(operator, inputs, attributes, &output);
        output
    }

    fn named_node(
        &mut self,
        operator: &str,
        inputs: &[&str],
        attributes: &[Attribute<'_>],
        output: &str,
    ) {
        let mut node = Message::default();
        for input in inputs {
            node.bytes(1, input.as_bytes());
        }
        node.bytes(2, output.as_bytes())
            .bytes(3, output.as_bytes())
            .bytes(4, operator.as_bytes());
        for attribute in attributes {
            node.message(5, &attribute.encode());
        }
        self.graph.message(1, &node);
    }

    fn name(&mut self, stem: &str) -> String {
        self.names += 1;
        format!("{stem}_{}", self.names)
    }
}

/// Values that every layer shares.
struct Shapes {
    split: String,
    flat: String,
    padding: String,
    scale: String,
}

#[cfg(test)]
mod tests;
