// Package oncrpc is ONC RPC version 2 (RFC 5531): messages, authentication
// flavours, the dispatch of calls to programs, and record marking over TCP.
package oncrpc
