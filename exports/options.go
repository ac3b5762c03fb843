package exports

import "strings"

// Options are what a client may do, and how it is done for it. The zero value
// is rw,sync,secure,root_squash,no_all_squash,no_subtree_check; exports(5) has
// ro for its default, which Parse fills in.
type Options struct {
	ReadOnly     bool // ro: no changes
	Async        bool // async: answered before data are on stable storage
	Insecure     bool // insecure: from any port, not only from those below 1024
	NoRootSquash bool // no_root_squash: user 0 and group 0 stay what they are
	AllSquash    bool // all_squash: everybody is AnonUID and AnonGID
	SubtreeCheck bool // subtree_check: objects moved out of the directory are out of reach
	CrossMnt     bool // crossmnt: there are to be no mounts below that clients would miss
	NoHide       bool // nohide: as above, said of the mount below
	Exclusive    bool // exclusive: only this server changes what is in the directory

	AnonUID, AnonGID ID // who callers without an identity are

	FSID FSID // of the export, whoever the client is
}

// String returns the options as exports(5) writes them, in full.
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
