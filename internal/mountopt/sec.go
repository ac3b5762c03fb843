package mountopt

import (
	"fmt"
	"slices"
	"strings"
)

// Sec are security flavours, in the words of nfs(5): the preferred first. If it is
// empty, the export's list decides. It is a flag's value.
type Sec []string

var secWords = []string{"sys", "krb5", "krb5i", "krb5p"}

// Set takes flavours with colons between them (nfs(5), sec).
func (s *Sec) Set(value string) error {
	list := strings.Split(value, ":")
	for _, word := range list {
		if !slices.Contains(secWords, word) {
			return fmt.Errorf("%q is not one of %s", word, strings.Join(secWords, ", "))
		}
	}
	*s = list
	return nil
}

// String returns the flavours with colons between them.
func (s *Sec) String() string { return strings.Join(*s, ":") }

// Type is the placeholder in the help.
func (*Sec) Type() string { return "FLAVOR:..." }
