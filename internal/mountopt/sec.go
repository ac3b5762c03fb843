package mountopt

import (
	"fmt"
	"slices"
	"strings"
)

// Sec are security flavors, with the names of nfs(5), in order of preference. If it
// is empty, the export's list decides. It is a flag's value.
type Sec []string

var secFlavors = []string{"sys", "krb5", "krb5i", "krb5p"}

// Words returns the flavors.
func (*Sec) Words() []string { return slices.Clone(secFlavors) }

// Set parses flavors separated by colons (nfs(5), sec).
func (s *Sec) Set(value string) error {
	list := strings.Split(value, ":")
	for _, word := range list {
		if !slices.Contains(secFlavors, word) {
			return fmt.Errorf("%q is not one of %s", word, strings.Join(secFlavors, ", "))
		}
	}
	*s = list
	return nil
}

// String returns the flavors separated by colons.
func (s *Sec) String() string { return strings.Join(*s, ":") }

// Type is the placeholder in the help.
func (*Sec) Type() string { return "FLAVOR:..." }
