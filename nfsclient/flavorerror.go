package nfsclient

import (
	"fmt"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// A FlavorError means that an export has no security flavor that the client
// accepts.
type FlavorError struct {
	Path     string
	Wanted   []uint32 // by the export
	Accepted []uint32
	Cause    error // why no Kerberos flavor is accepted; nil if none was requested
}

// Error returns both ends' flavors as values of the option sec= (nfs(5)).
func (e *FlavorError) Error() string {
	words := fmt.Sprintf("the export %s wants %s; the mount says sec=%s", e.Path, flavorNames(e.Wanted, ", "), flavorNames(e.Accepted, ":"))
	if e.Cause != nil {
		words += ": " + e.Cause.Error()
	}
	return words
}

// Unwrap returns the cause.
func (e *FlavorError) Unwrap() error { return e.Cause }

func flavorNames(list []uint32, between string) string {
	var words []string
	for _, f := range list {
		words = append(words, exports.Flavor(f).String())
	}
	return strings.Join(words, between)
}
