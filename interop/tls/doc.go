// Package tls tests RPC with TLS against peers that are not crypto/tls: OpenSSL, by a
// program in Python, and Linux with tlshd (GnuTLS, and TLS in the kernel). Linux 6.1
// has no RPC with TLS, so the guest has Linux 6.12, whatever INTEROP_KERNEL says. Run it
// with
//
//	go test -tags interop ./interop/tls
package tls
