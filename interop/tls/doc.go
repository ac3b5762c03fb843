// Package tls tests RPC with TLS against OpenSSL, with which Linux's tlshd has in common
// that it is not crypto/tls. The peer is a program in Python. Run it with
//
//	go test -tags interop ./interop/tls
package tls
