// Package pcap writes a TCP connection's bytes as a file of captured packets, which
// tcpdump and Wireshark can open.
//
//	File: header │ record │ record │ …            nanoseconds, Ethernet
//	                  └─ time │ Ethernet │ IPv4 or IPv6 │ TCP │ bytes
//
// These packets were never on a network: the package wraps the bytes that a program
// has recorded on its own connection. The headers give the addresses, ports and
// order of the real packets; checksums are correct.
//
// The package must not depend on the meaning of the bytes.
package pcap
