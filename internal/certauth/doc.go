// Package certauth is a small certificate authority in a directory, for RPC with TLS: it
// creates a server's certificate, and archives with the certificates of clients, and renews
// what it has created.
//
//	DIR/ca.pem, ca.key            the authority
//	DIR/server.pem, server.key    the server's certificate
//	DIR/clients/NAME.pem          the clients' certificates, without their keys
//
// A renewed certificate keeps its key and its names, so that one file is replaced, and NFSv4
// clients keep their state. The package must not know which program uses the files.
package certauth
