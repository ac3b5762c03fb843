package report

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStatusBytes checks that bytes have their older names as well.
func TestStatusBytes(t *testing.T) {
	for _, doc := range []any{Connection{Traffic: newTraffic(1, 2)}, procDoc{Traffic: newTraffic(1, 2)}} {
		b, err := json.Marshal(doc)
		require.NoError(t, err)
		assert.Contains(t, string(b), `"bytes_in":1,"bytes_out":2,"octets_in":1,"octets_out":2`)
	}
}

// TestContextsText checks how contexts are shown, and that reasons with the same
// words count together.
func TestContextsText(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d := &kerberosDoc{
		Contexts: 3, Made: 9, Calls: flavorsDoc{1, 2, 3}, Refused: countReasons(map[uint32]uint64{37: 2, 39: 1, 60: 2, 1000: 1}),
		Expired: 4, Dropped: 5,
		List: []contextDoc{
			{Principal: "alice@EXAMPLE.ORG", Client: "192.0.2.1/32", UID: 1001, Mechanism: "krb5 aes256", Ends: now.Add(90 * time.Minute)},
			{Principal: "host/b@EXAMPLE.ORG", Client: "192.0.2.2/32", UID: -1, Mechanism: "krb5 aes128", Ends: now.Add(-time.Minute), CallsUnderWay: 2},
		},
	}
	assert.Equal(t, []reasonCountDoc{{"malformed", 3}, {"clocks", 2}, {"other", 1}}, d.Refused)
	var out bytes.Buffer
	require.NoError(t, (&Status{Kerberos: d}).PrintText(&out, now))
	for _, want := range []string{
		"3 contexts now, 9 in total; calls: krb5 1, krb5i 2, krb5p 3\n", "contexts rejected, by reason: malformed 3, clocks 2, other 1\n",
		"4 contexts expired, 5 dropped as old or repeated\n", "alice@EXAMPLE.ORG   1001    192.0.2.1/32", "1 h 30 min  0\n", "host/b@EXAMPLE.ORG  nobody", "and 1 more\n",
	} {
		assert.Contains(t, out.String(), want)
	}
}
