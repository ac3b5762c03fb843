// Package certtest makes certificates for tests: authorities, certificates of hosts and
// revocation lists, in files as an administrator writes them. The package must not know
// how they are used.
package certtest
