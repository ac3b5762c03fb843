package exports

import "strings"

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

	AnonUID, AnonGID ID // identity of callers without one

	FSID FSID // of the export, for all clients

	// Refer are the places of a file system that is not here: clients of version 4
	// are sent there, and others find nothing. Replicas are further places of one
	// that is here. At most one of the two is set.
	Refer, Replicas Locations
}

// String returns all options in the syntax of exports(5).
func (o Options) String() string {
	pick := func(b bool, yes, no string) string {
		if b {
			return yes
		}
		return no
	}
	words := []string{
		pick(o.ReadOnly, "ro", "rw"),
		pick(o.Async, "async", "sync"),
		pick(o.Insecure, "insecure", "secure"),
		pick(o.NoRootSquash, "no_root_squash", "root_squash"),
		pick(o.AllSquash, "all_squash", "no_all_squash"),
		pick(o.SubtreeCheck, "subtree_check", "no_subtree_check"),
		pick(o.CrossMnt, "crossmnt", ""),
		pick(o.NoHide, "nohide", ""),
		pick(o.Exclusive, "exclusive", ""),
		pick(o.AnonUID != ID{}, "anonuid="+o.AnonUID.String(), ""),
		pick(o.AnonGID != ID{}, "anongid="+o.AnonGID.String(), ""),
		pick(o.FSID.Set(), "fsid="+o.FSID.String(), ""),
		pick(o.Refer.Set(), "refer="+o.Refer.String(), ""),
		pick(o.Replicas.Set(), "replicas="+o.Replicas.String(), ""),
		"sec=sys",
	}
	var said []string
	for _, w := range words {
		if w != "" {
			said = append(said, w)
		}
	}
	return strings.Join(said, ",")
}
