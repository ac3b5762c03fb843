// Package pcap writes the bytes of a TCP connection as a file of captured
// packets, which tcpdump and Wireshark open.
//
//	File: header │ record │ record │ …            nanoseconds, Ethernet
//	                  └─ time │ Ethernet │ IPv4 or IPv6 │ TCP │ bytes
//
// These packets were never on a network: a program that keeps the bytes of its
// own connection has them wrapped here. The headers give the addresses, ports
// and order of the real packets; checksums are right.
//
// The package must not know the meaning of the bytes.
package pcap
