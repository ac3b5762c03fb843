package nfsclient

import (
	"fmt"
	"strings"

	"github.com/nfsrdma/nfsrdma/exports"
)

// A FlavorError means that an export has none of the security flavours that are
// accepted here.
type FlavorError struct {
	Path     string
	Wanted   []uint32 // by the export
	Accepted []uint32
	Cause    error // why none of Kerberos is accepted; nil: nobody asked for that
}

// Error returns the flavours of both ends in the words of sec= (nfs(5)).
func (e *FlavorError) Error() string {
	words := fmt.Sprintf("the export %s wants %s; the mount says sec=%s", e.Path, flavorWords(e.Wanted, ", "), flavorWords(e.Accepted, ":"))
	if e.Cause != nil {
		words += ": " + e.Cause.Error()
	}
	return words
}

// Unwrap returns the cause.
func (e *FlavorError) Unwrap() error { return e.Cause }

func flavorWords(list []uint32, between string) string {
	var words []string
	for _, f := range list {
		words = append(words, exports.Flavor(f).String())
	}
	return strings.Join(words, between)
}
