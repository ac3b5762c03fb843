package mountopt

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSec checks lists of flavors, and that a wrong one changes nothing.
func TestSec(t *testing.T) {
	var s Sec
	assert.Empty(t, s.String())
	require.NoError(t, s.Set("krb5p:sys"))
	assert.Equal(t, Sec{"krb5p", "sys"}, s)
	for _, wrong := range []string{"", "krb5:", "none", "KRB5", "krb5,krb5i", "spkm"} {
		assert.ErrorContains(t, s.Set(wrong), "is not one of sys, krb5, krb5i, krb5p")
	}
	assert.Equal(t, "krb5p:sys", s.String())

	o, err := parseAll(t, "sec=krb5i:krb5,keytab=/etc/[host].keytab")
	require.NoError(t, err)
	assert.Equal(t, Sec{"krb5i", "krb5"}, *o.Sec)
	assert.Equal(t, "/etc/[host].keytab", *o.Keytab)
}
