package exports

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An export below another is reached by the other's rules too, so who has more rights by
// these is found.
func TestFindLaxer(t *testing.T) {
	for _, tt := range []struct {
		upper, lower string
		laxer        bool
		option       string
	}{
		{"*(rw)", "*(rw)", false, ""},
		{"*(ro)", "*(rw,insecure)", false, ""},
		{"*(rw)", "*(ro)", true, "rw"},
		{"*(sec=sys:krb5p)", "*(sec=krb5p)", true, "sec=sys"},
		{"*(sec=krb5p)", "*(sec=sys:krb5p)", false, ""},
		{"*(xprtsec=tls)", "*(xprtsec=mtls)", true, "xprtsec=tls"},
		{"*(insecure)", "*(secure)", true, "insecure"},
		{"*(no_root_squash)", "*", true, "no_root_squash"},
		{"*", "*(all_squash)", true, "no_all_squash"},
		{"192.0.2.0/24", "192.0.2.1", true, ""},
		{"192.0.2.1", "192.0.2.1", false, ""},
		{"192.0.2.1(rw)", "192.0.2.1(ro) *(rw)", true, "rw"},
		{"192.0.2.1", "*", false, ""},
		{"192.0.2.1 192.0.2.2(no_root_squash)", "*", true, "no_root_squash"},
	} {
		f, err := Parse("exports", []byte("/srv "+tt.upper+"\n/srv/a/b "+tt.lower+"\n/srvother *(ro)"))
		require.NoError(t, err)
		list := f.FindBroaderAccess()
		require.Equal(t, tt.laxer, len(list) == 1, tt)
		if tt.laxer {
			assert.Equal(t, "/srv", list[0].Upper.Path)
			assert.Equal(t, "/srv/a/b", list[0].Lower.Path)
			assert.Equal(t, tt.option, list[0].Option, tt)
		}
	}
}
