// Package firstbytes identifies the protocol of a peer by the first bytes that it
// sends, so that an error can name what connects to the wrong port. The package
// must not know any connection.
package firstbytes
