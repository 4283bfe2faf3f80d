//! libulsock_preload.so
