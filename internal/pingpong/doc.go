// Package pingpong sends messages back and forth over RoCEv2, like rdma-core's
// ibv_uc_pingpong and ibv_ud_pingpong, and with their handshake. It tests a fabric,
// or a peer's RoCE. It must not depend on how the two ends found each other, nor on
// a command's flags and output.
package pingpong
