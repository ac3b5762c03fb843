package exports

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTransports checks which transports each xprtsec= list accepts: one that protects more
// than one in the list is always accepted.
func TestTransports(t *testing.T) {
	for _, tt := range []struct {
		options, list string
		takes         [3]bool // none, tls, mtls
	}{
		{"rw", "none:tls:mtls", [3]bool{true, true, true}},
		{"xprtsec=none", "none", [3]bool{true, true, true}},
		{"xprtsec=tls", "tls", [3]bool{false, true, true}},
		{"xprtsec=mtls", "mtls", [3]bool{false, false, true}},
		{"xprtsec=none:tls", "none:tls", [3]bool{true, true, true}},
		{"xprtsec=none:mtls", "none:mtls", [3]bool{true, true, true}},
		{"xprtsec=mtls:tls", "tls:mtls", [3]bool{false, true, true}},
		{"xprtsec=mtls:tls:none:tls", "none:tls:mtls", [3]bool{true, true, true}},
		{"xprtsec=none,xprtsec=mtls", "mtls", [3]bool{false, false, true}},
		{"sec=krb5,xprtsec=tls,sec=sys,ro", "tls", [3]bool{false, true, true}},
	} {
		t.Run(tt.options, func(t *testing.T) {
			f, err := Parse("exports", []byte("/srv a("+tt.options+")"))
			require.NoError(t, err)
			o := f.Exports[0].Clients[0].Options
			assert.Equal(t, tt.list, o.Xprtsec.String())
			for i, takes := range tt.takes {
				assert.Equal(t, takes, o.Xprtsec.Take(Transport(i)), Transport(i))
			}
			again, err := Parse("exports", []byte(f.String()))
			require.NoError(t, err, f.String())
			assert.Equal(t, o.Xprtsec, again.Exports[0].Clients[0].Options.Xprtsec, f.String())
		})
	}
	assert.Equal(t, OfTransports(TransportTLS, TransportMTLS).String(), "tls:mtls")
	f, err := Parse("exports", []byte("/a -xprtsec=mtls,rw b c(xprtsec=tls)"))
	require.NoError(t, err)
	assert.Equal(t, `/a b(rw,sync,secure,root_squash,no_all_squash,no_subtree_check,xprtsec=mtls,sec=sys)
/a c(rw,sync,secure,root_squash,no_all_squash,no_subtree_check,xprtsec=tls,sec=sys)
`, f.Explain())
	for _, bad := range []string{"xprtsec", "xprtsec=", "xprtsec=ssl", "xprtsec=tls:", "xprtsec=tls,mtls"} {
		_, err := Parse("exports", []byte("/srv a("+bad+")"))
		assert.Error(t, err, bad)
	}
}
