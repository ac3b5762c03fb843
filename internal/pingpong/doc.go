// Package pingpong sends messages to and fro over RoCEv2, as rdma-core's
// ibv_uc_pingpong and ibv_ud_pingpong do, and with their handshake. It tests a
// fabric, or a peer's RoCE. It must not know how the two ends found each other,
// nor the flags and the output of a command.
package pingpong
