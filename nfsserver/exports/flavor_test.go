package exports

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// describeFlavors returns a client's flavors in their order, each with the options that differ
// from ro,root_squash,no_all_squash and nobody's numbers.
func describeFlavors(o *Options) string {
	var said []string
	for _, f := range o.Flavors() {
		one := o.Of(f)
		words := f.String()
		for _, w := range []string{
			pickWord(one.ReadOnly, "", "rw"), pickWord(one.NoRootSquash, "no_root_squash", ""), pickWord(one.AllSquash, "all_squash", ""),
			pickWord(one.AnonUID != ID{}, "anonuid="+one.AnonUID.String(), ""), pickWord(one.AnonGID != ID{}, "anongid="+one.AnonGID.String(), ""),
		} {
			if w != "" {
				words += "," + w
			}
		}
		said = append(said, words)
	}
	return strings.Join(said, " ")
}

// TestFlavors checks which flavors a client has, in which order and with which rights. The
// cases are those that nfs-utils' code decides (parse_flavors, setflags), and those in which
// this server differs.
func TestFlavors(t *testing.T) {
	for _, tt := range []struct {
		name, line, want string
	}{
		{"without sec=", "a(rw)", "sys,rw"},
		{"sys", "a(sec=sys,rw)", "sys,rw"},
		{"the order of sec= counts", "a(sec=krb5p:krb5i:krb5:sys:none)", "krb5p krb5i krb5 sys none"},
		{"another order", "a(sec=none:sys:krb5)", "none sys krb5"},
		{"options before sec= count for its flavours", "a(rw,no_root_squash,sec=krb5:sys)", "krb5,rw,no_root_squash sys,rw,no_root_squash"},
		{"options after sec= count for its flavours", "a(sec=krb5:sys,rw,all_squash)", "krb5,rw,all_squash sys,rw,all_squash"},
		{"rights for each flavour", "a(sec=krb5p,rw,no_root_squash,sec=sys,ro,root_squash)", "krb5p,rw,no_root_squash sys"},
		{"ro for the first alone", "a(rw,sec=sys,ro,sec=krb5,rw)", "sys krb5,rw"},
		{"a later flavour begins with the options so far", "a(sec=sys,rw,all_squash,sec=krb5)", "sys,rw,all_squash krb5,rw,all_squash"},
		{"and with their last values", "a(sec=sys,rw,sec=krb5,ro,sec=krb5i)", "sys,rw krb5 krb5i"},
		{"a flavour again is chosen again, in its place", "a(sec=krb5,sec=sys,rw,sec=krb5,no_root_squash)", "krb5,no_root_squash sys,rw"},
		{"a flavour twice in a list", "a(sec=sys:krb5:sys)", "sys krb5"},
		{"a choice of several", "a(sec=krb5,sec=krb5i,sec=krb5:krb5i,rw,sec=sys)", "krb5,rw krb5i,rw sys,rw"},
		{"words of nfs-utils for the same flavours", "a(sec=unix:null:sys:none)", "sys none"},
		{"numbers for each flavour", "a(anonuid=1,sec=krb5,anongid=2,sec=sys,anonuid=3)", "krb5,anonuid=1,anongid=2 sys,anonuid=3,anongid=2"},
		{"other options count for all", "a(sec=krb5,rw,sec=sys,async,insecure)", "krb5,rw sys,rw"},
		{"none has rights too", "a(sec=krb5,rw,sec=none,ro,all_squash)", "krb5,rw none,all_squash"},
		{"default options", "-sec=krb5,rw a", "krb5,rw"},
		{"a client's options count for the flavours of the default options", "-sec=krb5:sys,rw,sec=sys,no_root_squash a(ro)", "krb5 sys,no_root_squash"},
		{"a client's sec= replaces that of the default options", "-sec=sys,rw a(sec=krb5p)", "krb5p,rw"},
		{"a client's options before its sec=", "-sec=sys,rw a(ro,sec=krb5p)", "krb5p"},
		{"default options of the other client", "-rw,sec=krb5 b(sec=sys) a", "krb5,rw"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Parse("exports", []byte("/srv "+tt.line))
			require.NoError(t, err)
			clients := f.Exports[0].Clients
			assert.Equal(t, tt.want, describeFlavors(&clients[len(clients)-1].Options))
			again, err := Parse("exports", []byte(f.String()))
			require.NoError(t, err, f.String())
			for i, c := range again.Exports[0].Clients {
				assert.Equal(t, describeFlavors(&clients[i].Options), describeFlavors(&c.Options), f.String())
			}
		})
	}
}

// TestFlavorsCommon checks that the options that do not differ between flavors are the same for
// each.
func TestFlavorsCommon(t *testing.T) {
	f, err := Parse("exports", []byte("/srv a(sec=krb5,rw,insecure,sec=sys,ro,async,fsid=4)"))
	require.NoError(t, err)
	o := f.Exports[0].Clients[0].Options
	for _, flavor := range o.Flavors() {
		one := o.Of(flavor)
		assert.True(t, one.Insecure && one.Async && one.FSID.Attr() == 4, flavor)
		assert.Equal(t, flavor == FlavorSys, one.ReadOnly, flavor)
	}
	first, ok := o.Kerberos()
	assert.True(t, ok)
	assert.Equal(t, FlavorKrb5, first)
	none := Options{}
	_, ok = none.Kerberos()
	assert.False(t, ok)
}

// TestExplain checks that a file's meaning has a line for each flavor.
func TestExplain(t *testing.T) {
	f, err := Parse("exports", []byte("/a *(sec=krb5p:krb5i,rw,sec=sys,ro,anonuid=7) b(rw)"))
	require.NoError(t, err)
	assert.Equal(t, `/a *(rw,sync,secure,root_squash,no_all_squash,no_subtree_check,sec=krb5p)
/a *(rw,sync,secure,root_squash,no_all_squash,no_subtree_check,sec=krb5i)
/a *(ro,sync,secure,root_squash,no_all_squash,no_subtree_check,anonuid=7,sec=sys)
/a b(rw,sync,secure,root_squash,no_all_squash,no_subtree_check,sec=sys)
`, f.Explain())
	assert.Equal(t, `/a *(sync,secure,no_subtree_check,sec=krb5p:krb5i,rw,root_squash,no_all_squash,anonuid=65534,anongid=65534,sec=sys,ro,root_squash,no_all_squash,anonuid=7,anongid=65534)
/a b(rw,sync,secure,root_squash,no_all_squash,no_subtree_check,sec=sys)
`, f.String())
}

// TestFlavorNumbers checks the numbers in RFC 2623, Section 4.2, and RFC 5531.
func TestFlavorNumbers(t *testing.T) {
	list, err := ParseFlavors("none:sys:krb5:krb5i:krb5p")
	require.NoError(t, err)
	assert.Equal(t, []Flavor{0, 1, 390003, 390004, 390005}, list)
	for i, f := range list {
		assert.Equal(t, i > 1, f.Kerberos(), f)
	}
	assert.Equal(t, "flavor 6", Flavor(6).String())
}
