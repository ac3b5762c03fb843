package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/fusefs"
	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// parsed parses the lists one after the other.
func parsed(t *testing.T, lists ...string) (*mountOptions, error) {
	t.Helper()
	a := newApp(nil, nil)
	a.newRoot() // sets the defaults of the shared flags
	o := newMountOptions(a)
	for _, list := range lists {
		if err := o.parse(list, false); err != nil {
			return o, err
		}
	}
	return o, nil
}

func TestOptions(t *testing.T) {
	for _, tt := range []struct {
		list string
		want func(o *mountOptions) // changes the defaults
	}{
		{"", func(*mountOptions) {}},
		{"ro", func(o *mountOptions) { o.readOnly = true }},
		{"ro,rw", func(*mountOptions) {}},
		{"rw,ro", func(o *mountOptions) { o.readOnly = true }},
		{"soft,timeo=5,retrans=0", func(o *mountOptions) { o.soft, o.timeo, o.retrans = true, 5, 0 }},
		{"softerr", func(o *mountOptions) { o.soft = true }},
		{"soft,hard,timeo=6000", func(o *mountOptions) { o.timeo = 6000 }},
		{"rsize=65536,wsize=8191", func(o *mountOptions) { o.rsize, o.wsize = 65536, 4096 }},
		{"rsize=1,wsize=4294967295", func(o *mountOptions) { o.rsize, o.wsize = 4096, 1<<20 }},
		{"nconnect=4", func(o *mountOptions) { o.connections = 4 }},
		{"port=2050,mountport=20048,mounthost=m", func(o *mountOptions) { o.port, o.mountPort, o.mountHost = 2050, 20048, "m" }},
		{"mountaddr=[fe80::1%eth0]", func(o *mountOptions) { o.mountHost = "fe80::1%eth0" }},
		{"noac", func(o *mountOptions) { o.noAC = true }},
		{"noac,ac,sync", func(o *mountOptions) { o.sync = true }},
		{"sync,async", func(*mountOptions) {}},
		{"nodeleg", func(o *mountOptions) { o.noDeleg = true }},
		{"nodeleg,deleg", func(*mountOptions) {}},
		{"actimeo=7", func(o *mountOptions) { o.acRegMin, o.acRegMax, o.acDirMin, o.acDirMax = 7, 7, 7, 7 }},
		{"actimeo=7,acregmin=1,acdirmax=9", func(o *mountOptions) { o.acRegMin, o.acRegMax, o.acDirMin, o.acDirMax = 1, 7, 7, 9 }},
		{"acregmax=0,acdirmin=2147483647", func(o *mountOptions) { o.acRegMax, o.acDirMin = 0, 1<<31-1 }},
		{"lookupcache=none", func(o *mountOptions) { o.lookup = fusefs.LookupNone }},
		{"lookupcache=pos", func(o *mountOptions) { o.lookup = fusefs.LookupPositive }},
		{"lookupcache=positive,lookupcache=all", func(*mountOptions) {}},
		{"nosuid,nodev,noexec", func(o *mountOptions) { o.noSUID, o.noDev, o.noExec = true, true, true }},
		{"suid", func(o *mountOptions) { o.noSUID = false }},
		{"dev", func(o *mountOptions) { o.noDev = false }},
		{"noexec,suid,dev,exec", func(o *mountOptions) { o.noSUID, o.noDev = false, false }},
		{"suid,dev,nosuid,nodev", func(*mountOptions) {}},
		{"allow_suid,allow_dev", func(o *mountOptions) { o.noSUID, o.noDev = false, false }},
		{"suid,dev,user", func(o *mountOptions) { o.noExec = true }},
		{"user=alice,exec", func(*mountOptions) {}},
		{"dev,owner", func(*mountOptions) {}},
		{"noexec,group,suid", func(o *mountOptions) { o.noExec, o.noSUID = true, false }},
		{"allow_other", func(o *mountOptions) { o.allowOther = true }},
		{"nolock,local_lock=all", func(*mountOptions) {}},
		{"lock", func(o *mountOptions) { o.note = localLocks }},
		{"local_lock=none", func(o *mountOptions) { o.note = localLocks }},
		{"lock,nolock", func(*mountOptions) {}},
		{"bg,retry=0", func(o *mountOptions) { o.background, o.retry = true, 0 }},
		{"bg,fg", func(*mountOptions) {}},
		{"crc=on,inline=8KiB,credits=7", func(o *mountOptions) { o.crc.Word, o.inline, o.credits = "on", 8192, 7 }},
		{"markers=on,noextensions", func(o *mountOptions) { o.markers.Word, o.bare = "on", true }},
		{"rdma,proto=rdma,proto=rdma6,vers=3,nfsvers=3,v3,mountvers=3,mountproto=tcp,sec=sys", func(*mountOptions) {}},
		{"defaults,auto,noauto,nouser,_netdev,nofail,comment=a b,x-systemd.automount,x-gvfs-show,X-mount.mkdir=0755", func(*mountOptions) {}},
		{"relatime,noatime,nodiratime,intr,nointr,addr=10.0.0.1,clientaddr=::1,,", func(*mountOptions) {}},
	} {
		want, err := parsed(t)
		require.NoError(t, err)
		tt.want(want)
		got, err := parsed(t, tt.list)
		require.NoError(t, err, tt.list)
		want.app, got.app = got.app, want.app // compared below
		assert.Equal(t, got.crc.Word, want.crc.Word)
		assert.Equal(t, got.markers.Word, want.markers.Word)
		assert.Equal(t, got.bare, want.bare)
		assert.Equal(t, got.inline, want.inline)
		assert.Equal(t, got.credits, want.credits)
		want.app = got.app
		assert.Equal(t, want, got, tt.list)
		inParts, err := parsed(t, strings.Split(tt.list, ",")...)
		require.NoError(t, err, tt.list)
		inParts.app = got.app
		assert.Equal(t, got, inParts, "one -o for each of %s", tt.list)
	}
}

// TestSafeOptions checks that a mount ignores devices and set-user-ID bits by
// default.
func TestSafeOptions(t *testing.T) {
	for list, want := range map[string][2]bool{"": {true, true}, "defaults,rw": {true, true}, "dev": {true, false}, "suid": {false, true}} {
		o, err := parsed(t, list)
		require.NoError(t, err)
		m := &mountCommand{app: o.app, opts: o}
		c := m.config(new(session), nil)
		assert.Equal(t, want, [2]bool{c.NoSUID, c.NoDev}, "-o %s", list)
	}
}

func TestWrongOptions(t *testing.T) {
	for list, want := range map[string]string{
		"acregmn":                  `unknown option "acregmn": did you mean acregmin?`,
		"acregimn=3":               `unknown option "acregimn": did you mean acregmin?`,
		"RO":                       `unknown option "RO": did you mean ro?`,
		"nosiud":                   `unknown option "nosiud": did you mean nosuid?`,
		"lookup_cache=all":         `unknown option "lookup_cache": did you mean lookupcache?`,
		"frobnicate":               `unknown option "frobnicate": --help lists those that there are`,
		"=3":                       "",
		"ro=1":                     "option ro=1: it takes no value",
		"rsize":                    "option rsize: it needs a value: rsize=N",
		"rsize=":                   "option rsize=: it needs a value: rsize=N",
		"rsize=0":                  "option rsize=0: not a number of octets between 1 and 4294967295",
		"wsize=1m":                 "option wsize=1m: not a number of octets between 1 and 4294967295",
		"timeo=0":                  "option timeo=0: not a number between 1 and 6000",
		"timeo=6001":               "option timeo=6001: not a number between 1 and 6000",
		"retrans=-1":               "option retrans=-1: not a number between 0 and 1000000",
		"port=0":                   "option port=0: not a number between 1 and 65535",
		"mountport=65536":          "option mountport=65536: not a number between 1 and 65535",
		"actimeo=x":                "option actimeo=x: not a number between 0 and 2147483647",
		"nconnect=0":               "option nconnect=0: not a number between 1 and 16",
		"nconnect=17":              "option nconnect=17: not a number between 1 and 16",
		"retry=525601":             "option retry=525601: not a number between 0 and 525600",
		"lookupcache=some":         "option lookupcache=some: not one of all, none, pos, positive",
		"local_lock=some":          "option local_lock=some: not one of all, flock, none, posix",
		"crc=maybe":                "option crc=maybe: not one of auto, on, off",
		"inline=1000":              "option inline=1000: not between 1024 and 262144 octets",
		"inline=x":                 "option inline=x: not a size: write bytes, or a number with KiB, MiB or GiB (below 2 GiB)",
		"credits=0":                "option credits=0: not a number between 1 and 4096",
		"proto=tcp":                "option proto=tcp: " + otherTransport,
		"udp":                      "option udp: " + otherTransport,
		"vers=4.2":                 "option vers=4.2: " + otherVersion,
		"nfsvers=2":                "option nfsvers=2: " + otherVersion,
		"v4.1":                     "option v4.1: " + otherVersion,
		"mountproto=udp":           "option mountproto=udp: MOUNT is asked on the RDMA connection and over TCP, nothing else",
		"sec=krb5p":                "option sec=krb5p: there is sec=sys only, no Kerberos",
		"remount,ro":               "option remount: a mount cannot be changed: unmount it, and mount it anew",
		"ro,soft,timeo=70,hrad,ro": `unknown option "hrad": did you mean hard?`,
	} {
		_, err := parsed(t, list)
		if want == "" {
			assert.NoError(t, err, list)
			continue
		}
		assert.EqualError(t, err, want, list)
	}
}

func TestSloppy(t *testing.T) {
	o := newMountOptions(newApp(nil, nil))
	require.NoError(t, o.parse("frobnicate,ro,acregmn=3", true))
	assert.True(t, o.readOnly)
	assert.Error(t, o.parse("timeo=0", true), "a wrong value is no unknown option")
}

// TestOptionTimes checks the times of nfs(5) for TCP and RDMA.
func TestOptionTimes(t *testing.T) {
	for list, want := range map[string][3]time.Duration{
		"":                             {time.Minute, 0, 2 * time.Minute},
		"retrans=9":                    {time.Minute, 0, 2 * time.Minute},
		"soft":                         {time.Minute, 3 * time.Minute, 2 * time.Minute},
		"soft,timeo=14,retrans=4,bg":   {1400 * time.Millisecond, 7 * time.Second, 10000 * time.Minute},
		"soft,retrans=1000000":         {time.Minute, 10 * time.Minute, 2 * time.Minute},
		"softerr,timeo=6000,retrans=0": {10 * time.Minute, 10 * time.Minute, 2 * time.Minute},
		"retry=3,bg":                   {time.Minute, 0, 3 * time.Minute},
		"retry=0":                      {time.Minute, 0, 0},
	} {
		o, err := parsed(t, list)
		require.NoError(t, err)
		assert.Equal(t, want, [3]time.Duration{o.silence(), o.giveUp(), o.patience()}, list)
	}
}

// TestOptionTable checks that the table, from which the help is made, is
// consistent.
func TestOptionTable(t *testing.T) {
	table := newMountOptions(newApp(nil, nil)).table()
	seen := make(map[string]bool)
	for _, row := range table {
		assert.False(t, seen[row.name], "%s is there twice", row.name)
		seen[row.name] = true
	}
	assert.NotEmpty(t, table[len(table)-1].help, "the last names would be left out")
	help := must(t, "--help")
	for _, row := range table {
		assert.Contains(t, help, row.name)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "abc", 0},
		{"abc", "acb", 1},
		{"abc", "bc", 1},
		{"abc", "axc", 1},
		{"abcd", "badc", 2},
		{"hard", "soft", 4},
	} {
		assert.Equal(t, tt.want, distance(tt.a, tt.b), "%s %s", tt.a, tt.b)
		assert.Equal(t, tt.want, distance(tt.b, tt.a), "%s %s", tt.b, tt.a)
	}
}

// TestSpec checks sources of mounts. R8267-9-1: the default port is 20049.
func TestSpec(t *testing.T) {
	for spec, want := range map[string]location{
		"h:/":                         {server: server{host: "h", port: "20049"}, path: "/"},
		"h:/x":                        {server: server{host: "h", port: "20049"}, path: "/x"},
		"h:/x//y/./z/":                {server: server{host: "h", port: "20049"}, path: "/x/y/z"},
		"h:/%41 b?c:/d":               {server: server{host: "h", port: "20049"}, path: "/%41 b?c:/d"},
		"10.0.0.1:/x":                 {server: server{host: "10.0.0.1", port: "20049"}, path: "/x"},
		"h:2050:/x":                   {server: server{host: "h", port: "2050"}, path: "/x"},
		"[::1]:/x":                    {server: server{host: "::1", port: "20049"}, path: "/x"},
		"[fe80::1%eth0]:/x":           {server: server{host: "fe80::1%eth0", port: "20049"}, path: "/x"},
		"2001:db8::1:/x":              {server: server{host: "2001:db8::1", port: "20049"}, path: "/x"},
		"nfs://h:2050/x?mountport=99": {server: server{host: "h", port: "2050", mountPort: 99}, path: "/x"},
		"nfs://[::1]/a%20b/":          {server: server{host: "::1", port: "20049"}, path: "/a b", dir: true},
	} {
		got, err := parseSpec(spec)
		require.NoError(t, err, spec)
		assert.Equal(t, want, got, spec)
		assert.True(t, isSpec(spec))
	}
	for spec, want := range map[string]string{
		"server":      `"server" is nothing to mount: write SERVER:/EXPORT, or nfs://SERVER[:PORT]/EXPORT`,
		"/dev/sda1":   `"/dev/sda1" is nothing to mount: write SERVER:/EXPORT, or nfs://SERVER[:PORT]/EXPORT`,
		":/x":         `":/x": there is no server in it: write its name or address`,
		"h:99999:/x":  `"h:99999:/x": "99999" is no port: write a number from 1 to 65535`,
		"nfs://h:0/x": `"nfs://h:0/x": "0" is no port: write a number from 1 to 65535`,
	} {
		_, err := parseSpec(spec)
		assert.EqualError(t, err, want, spec)
	}
	assert.Equal(t, cli.ExitUsage, run(t.Context(), []string{":/x", "/mnt"}, new(strings.Builder), new(strings.Builder)))
}
