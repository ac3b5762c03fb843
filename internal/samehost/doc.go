// Package samehost keeps connections within the host free of congestion control
// that is designed for networks.
//
// A connection within the host has no network whose capacity must be found. An
// algorithm that measures and paces (BBR) delays bursts such as RPC data, and once
// a socket has had such an algorithm, Linux continues to pace it with a timer for
// each burst. Therefore sockets get Reno (RFC 5681), which any process may request,
// if possible before they are connected: the sockets of a listener, whose
// connections from other hosts get the host's default algorithm back, and the
// sockets to a loopback address.
//
// The package must not depend on the connections' content.
package samehost
