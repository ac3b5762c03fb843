package exports

import (
	"slices"
	"strings"
)

// Options are the rights of a client, and how its calls are done. The zero
// value is rw,sync,secure,root_squash,no_all_squash,no_subtree_check. The
// default of exports(5) is ro, which Parse sets.
type Options struct {
	ReadOnly     bool // ro: no changes
	Async        bool // async: reply before data is on stable storage
	Insecure     bool // insecure: from any port, not only from those below 1024
	NoRootSquash bool // no_root_squash: user 0 and group 0 stay unchanged
	AllSquash    bool // all_squash: everybody is AnonUID and AnonGID
	SubtreeCheck bool // subtree_check: objects moved out of the directory are inaccessible
	CrossMnt     bool // crossmnt: there must be no mounts below, because clients would not see them
	NoHide       bool // nohide: the same, stated for the mount below
	Exclusive    bool // exclusive: only this server changes the directory

	// InsecureLocks is insecure_locks: locks of version 3 may come without Kerberos
	// where all else needs it, because Linux's client has no other.
	InsecureLocks bool

	AnonUID, AnonGID ID // identity of callers without one

	// Sec are the flavours that calls may have, and may give each other values
	// of ReadOnly, NoRootSquash, AllSquash, AnonUID and AnonGID.
	Sec Security

	// Xprtsec are the transports that calls may come by, whatever their flavour is.
	Xprtsec Transports

	FSID FSID // of the export, for all clients

	// Refer are the places of a file system that is not here: clients of version 4
	// are sent there, and others find nothing. Replicas are further places of one
	// that is here. At most one of the two is set.
	Refer, Replicas Locations
}

// String returns all options in the syntax of exports(5).
func (o Options) String() string {
	groups := o.Sec.groups(o.rights())
	whole := len(groups) == 1 // options of all flavours, in front of sec=
	r := groups[0].rights
	anon := func(name string, id ID, always bool) string { return pick(always || id != ID{}, name+id.String(), "") }
	words := []string{
		pick(whole, pick(r.ReadOnly, "ro", "rw"), ""),
		pick(o.Async, "async", "sync"),
		pick(o.Insecure, "insecure", "secure"),
		pick(whole, pick(r.NoRootSquash, "no_root_squash", "root_squash"), ""),
		pick(whole, pick(r.AllSquash, "all_squash", "no_all_squash"), ""),
		pick(o.SubtreeCheck, "subtree_check", "no_subtree_check"),
		pick(o.CrossMnt, "crossmnt", ""),
		pick(o.NoHide, "nohide", ""),
		pick(o.Exclusive, "exclusive", ""),
		pick(o.InsecureLocks, "insecure_locks", ""),
		pick(whole, anon("anonuid=", r.AnonUID, false), ""),
		pick(whole, anon("anongid=", r.AnonGID, false), ""),
		pick(o.Xprtsec.Set(), "xprtsec="+o.Xprtsec.String(), ""),
		pick(o.FSID.Set(), "fsid="+o.FSID.String(), ""),
		pick(o.Refer.Set(), "refer="+o.Refer.String(), ""),
		pick(o.Replicas.Set(), "replicas="+o.Replicas.String(), ""),
	}
	for _, g := range groups {
		words = append(words, "sec="+g.flavors)
		if r := g.rights; !whole { // in full, because a later sec= begins with the options before it
			words = append(words,
				pick(r.ReadOnly, "ro", "rw"),
				pick(r.NoRootSquash, "no_root_squash", "root_squash"),
				pick(r.AllSquash, "all_squash", "no_all_squash"),
				anon("anonuid=", r.AnonUID, true), anon("anongid=", r.AnonGID, true))
		}
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ",")
}

func pick(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}
