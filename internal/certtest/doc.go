// Package certtest creates certificates for tests: authorities, host certificates
// and revocation lists, in files as an administrator writes them. The package must
// not depend on how they are used.
package certtest
