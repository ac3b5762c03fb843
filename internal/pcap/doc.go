// Package pcap writes what went over a TCP connection as a file of captured
// packets, which tcpdump and Wireshark open.
//
//	File: header │ record │ record │ …            nanoseconds, Ethernet
//	                  └─ time │ Ethernet │ IPv4 or IPv6 │ TCP │ bytes
//
// Nobody has seen these packets: a program that keeps the bytes of its own
// connection has them wrapped here. The headers say what those of the real ones
// did about addresses, ports and order; checksums are right.
//
// The package must not know what the bytes are.
package pcap
