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

// TestExportsText checks that options which are the default in exports(5) are shown only with
// Verbose, and that each client has a line.
func TestExportsText(t *testing.T) {
	d := ExportList{Exports: []Export{
		{Path: "/a", Clients: []string{
			"192.0.2.0/24(rw,sync,secure,root_squash,no_all_squash,no_subtree_check,sec=sys)",
			"*(ro,async,insecure,no_root_squash,all_squash,subtree_check,xprtsec=tls,sec=krb5)",
		}},
		{Path: "/b", Clients: []string{"h(sync,secure,no_subtree_check,sec=krb5,rw,root_squash,no_all_squash,anonuid=1,anongid=1,sec=sys,ro,root_squash,no_all_squash,anonuid=1,anongid=1)"}},
		{Path: "/none"},
		{Path: "/gone", Unavailable: "ENOENT", Clients: []string{"*(ro)"}},
	}}
	text := func() string {
		var b bytes.Buffer
		require.NoError(t, d.PrintText(&b, time.Time{}))
		return b.String()
	}
	assert.Equal(t, `/a     192.0.2.0/24(rw)
       *(ro,async,insecure,no_root_squash,all_squash,subtree_check,xprtsec=tls,sec=krb5)
/b     h(sync,secure,no_subtree_check,sec=krb5,rw,root_squash,no_all_squash,anonuid=1,anongid=1,sec=sys,ro,root_squash,no_all_squash,anonuid=1,anongid=1)
/none
/gone  UNAVAILABLE: ENOENT
`, text())
	d.Verbose = true
	assert.Contains(t, text(), "/a     192.0.2.0/24(rw,sync,secure,root_squash,no_all_squash,no_subtree_check,sec=sys)\n")
}
