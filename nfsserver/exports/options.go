package exports

import (
	"slices"
	"strings"
)

// Options are a client's rights, and how its calls are executed. The zero value is
// rw,sync,secure,root_squash,no_all_squash,no_subtree_check. The default in exports(5) is ro,
// which Parse sets.
type Options struct {
	ReadOnly     bool // ro: no changes
	Async        bool // async: reply before data is on stable storage
	Insecure     bool // insecure: from any port, not only from those below 1024
	NoRootSquash bool // no_root_squash: user 0 and group 0 stay unchanged
	AllSquash    bool // all_squash: every caller is AnonUID and AnonGID
	SubtreeCheck bool // subtree_check: objects moved out of the directory are inaccessible
	CrossMnt     bool // crossmnt: clients see the file systems that are mounted below
	NoHide       bool // nohide: NFSv3 clients of the export above see this one there
	Exclusive    bool // exclusive: only this server changes the directory

	// InsecureLocks is insecure_locks: NLM locks may come without Kerberos even if everything
	// else requires it, because Linux's client cannot use it for NLM.
	InsecureLocks bool

	AnonUID, AnonGID ID // identity for callers without one

	// Sec are the flavors that calls may have. They may have different values for ReadOnly,
	// NoRootSquash, AllSquash, AnonUID and AnonGID.
	Sec Security

	// Xprtsec are the transports that calls may use, whatever their flavor.
	Xprtsec Transports

	FSID FSID // export's identity, for all clients

	// Refer are the locations of a file system that is not here: NFSv4 clients are referred to
	// them, and other clients find nothing. Replicas are further locations of a file system
	// that is here. At most one of the two is set.
	Refer, Replicas Locations
}

// String returns all options in exports(5) syntax.
func (o Options) String() string {
	groups := o.Sec.groupByRights(o.ownRights())
	isUniform := len(groups) == 1 // options for all flavors come before sec=
	r := groups[0].rights
	anon := func(name string, id ID, always bool) string {
		return pickWord(always || id != ID{}, name+id.String(), "")
	}
	words := []string{
		pickWord(isUniform, pickWord(r.ReadOnly, "ro", "rw"), ""),
		pickWord(o.Async, "async", "sync"),
		pickWord(o.Insecure, "insecure", "secure"),
		pickWord(isUniform, pickWord(r.NoRootSquash, "no_root_squash", "root_squash"), ""),
		pickWord(isUniform, pickWord(r.AllSquash, "all_squash", "no_all_squash"), ""),
		pickWord(o.SubtreeCheck, "subtree_check", "no_subtree_check"),
		pickWord(o.CrossMnt, "crossmnt", ""),
		pickWord(o.NoHide, "nohide", ""),
		pickWord(o.Exclusive, "exclusive", ""),
		pickWord(o.InsecureLocks, "insecure_locks", ""),
		pickWord(isUniform, anon("anonuid=", r.AnonUID, false), ""),
		pickWord(isUniform, anon("anongid=", r.AnonGID, false), ""),
		pickWord(o.Xprtsec.Set(), "xprtsec="+o.Xprtsec.String(), ""),
		pickWord(o.FSID.Set(), "fsid="+o.FSID.String(), ""),
		pickWord(o.Refer.Set(), "refer="+o.Refer.String(), ""),
		pickWord(o.Replicas.Set(), "replicas="+o.Replicas.String(), ""),
	}
	for _, g := range groups {
		words = append(words, "sec="+g.flavors)
		if r := g.rights; !isUniform { // all of them, because a later sec= begins with the options before it
			words = append(words,
				pickWord(r.ReadOnly, "ro", "rw"),
				pickWord(r.NoRootSquash, "no_root_squash", "root_squash"),
				pickWord(r.AllSquash, "all_squash", "no_all_squash"),
				anon("anonuid=", r.AnonUID, true), anon("anongid=", r.AnonGID, true))
		}
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ",")
}

func pickWord(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}
