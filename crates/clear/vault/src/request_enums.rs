//! Enums of the file system on their way between processes.
//!
//! Takes   an enum of the file system
//! Gives   its twin, which travels with `request.rs` under its version

use serde::{Deserialize, Serialize};
use strongroom_filesystem::{AllocateMode, RenameMode, SeekTarget, XattrMode};

/// Gives an enum of the file system a twin that can travel.
macro_rules! twin {
    ($(#[$doc:meta])* $twin:ident = $original:ident { $($variant:ident),+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub(crate) enum $twin { $($variant),+ }

        impl From<$original> for $twin {
            fn from(value: $original) -> Self {
                match value { $($original::$variant => Self::$variant),+ }
            }
        }

        impl From<$twin> for $original {
            fn from(value: $twin) -> Self {
                match value { $($twin::$variant => Self::$variant),+ }
            }
        }
    };
}

twin!(/// `RenameMode` on its way.
    RenameName = RenameMode { Replace, NoReplace, Exchange, Whiteout });
twin!(/// `XattrMode` on its way.
    XattrName = XattrMode { Set, CreateOnly, ReplaceOnly });
twin!(/// `AllocateMode` on its way.
    AllocateName = AllocateMode { Reserve, ReserveKeepSize, PunchHole, ZeroRange, ZeroRangeKeepSize });
twin!(/// `SeekTarget` on its way.
    SeekName = SeekTarget { Data, Hole });
