package report

import "time"

// SchemaVersion is the version of the output of status --json. It changes when a field is
// removed or its meaning changes, but not when a field is added.
const SchemaVersion = 1

// A Status is the control socket's response at /status and the output of status --json.
// docs/operations.md describes it. Times are in RFC 3339 format, sizes in bytes.
type Status struct {
	Version     int            `json:"version"`
	Daemon      daemonDoc      `json:"daemon"`
	Standby     *Standby       `json:"standby,omitempty"`
	Transports  []Transport    `json:"transports"`
	Connections []Connection   `json:"connections"`
	Exports     []Export       `json:"exports"`
	Procedures  []procDoc      `json:"procedures"`
	Operations  []operationDoc `json:"nfs4_operations"`
	NFS4        *nfs4Doc       `json:"nfs4,omitempty"`
	ReplayCache replayDoc      `json:"replay_cache"`
	Grants      *Grants        `json:"grants,omitempty"`
	Discovery   *Discovery     `json:"discovery,omitempty"`
	Trace       *Spans         `json:"trace,omitempty"`
	Kerberos    *kerberosDoc   `json:"kerberos,omitempty"`
	TLS         *tlsDoc        `json:"tls,omitempty"`
	Reload      reloadDoc      `json:"last_reload"`

	Verbose        bool              `json:"-"` // PrintText prints all options of exports
	ClientActivity *ClientActivities `json:"client_activity"`
}

// SchemaVersion returns the document's version.
func (d *Status) SchemaVersion() int { return d.Version }

// A reloadDoc describes the last reload, or the start if there was none.
type reloadDoc struct {
	Success     bool      `json:"success"`
	LastSuccess time.Time `json:"last_success"`
}

type daemonDoc struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	UID     int       `json:"uid"`
	State   string    `json:"state"` // serving, draining or standby
	Since   time.Time `json:"since"`
}

type memoryDoc struct {
	Name  string `json:"name"` // the memory's purpose
	InUse int64  `json:"in_use"`
	Limit int64  `json:"limit"`
}

// A Transport describes a transport that the daemon serves, with its limits.
type Transport struct {
	Name         string           `json:"name"`                // rdma or tcp
	Address      string           `json:"address"`             // the first
	Addresses    []string         `json:"addresses,omitempty"` // all, if there are several
	Connections  ConnectionCounts `json:"connections"`
	WaitingCalls int              `json:"waiting_calls"` // calls that wait for memory
	Memory       []memoryDoc      `json:"memory"`
	RDMA         *deviceDoc       `json:"rdma,omitempty"`
}

// ConnectionCounts counts a transport's connections. All counts except Now are since the daemon
// started.
type ConnectionCounts struct {
	Now      int    `json:"now"`
	Total    uint64 `json:"total"`
	Refused  uint64 `json:"refused"`
	Replaced uint64 `json:"replaced"`
	Stalled  uint64 `json:"stalled"`
}

// deviceDoc has the counters that only the RDMA transport has.
type deviceDoc struct {
	ErrVers            uint64         `json:"err_vers"`
	ErrChunk           uint64         `json:"err_chunk"`
	Dropped            uint64         `json:"dropped"`
	TerminatesSent     []terminateDoc `json:"terminates_sent"`
	TerminatesReceived []terminateDoc `json:"terminates_received"`
	FPDUsSent          uint64         `json:"fpdus_sent"`
	FPDUsReceived      uint64         `json:"fpdus_received"`
	Regions            int            `json:"regions"`
	RegionBytes        uint64         `json:"region_bytes"`
	RegionOctets       uint64         `json:"region_octets"` // older name of the same value
}

type terminateDoc struct {
	Layer uint8  `json:"layer"`
	Type  uint8  `json:"type"`
	Code  uint8  `json:"code"`
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// Traffic counts the bytes received and sent. octets_in and octets_out are the older names
// of the same values.
type Traffic struct {
	BytesIn   uint64 `json:"bytes_in"`
	BytesOut  uint64 `json:"bytes_out"`
	OctetsIn  uint64 `json:"octets_in"`
	OctetsOut uint64 `json:"octets_out"`
}

func newTraffic(in, out uint64) Traffic { return Traffic{in, out, in, out} }

// A Connection describes a current connection.
type Connection struct {
	Transport     string      `json:"transport"`
	Peer          string      `json:"peer"`
	Since         time.Time   `json:"since"`
	Calls         uint64      `json:"calls"`
	CallsUnderWay int         `json:"calls_under_way"`
	Security      securityDoc `json:"security"`
	Traffic
	RDMA *rdmaConnDoc `json:"rdma,omitempty"`
}

// rdmaConnDoc has the parameters that a connection's two ends negotiated.
type rdmaConnDoc struct {
	MPARevision        int           `json:"mpa_revision"`
	CRC                bool          `json:"crc"`
	MarkersSent        bool          `json:"markers_sent"`
	MarkersReceived    bool          `json:"markers_received"`
	PeerToPeer         bool          `json:"peer_to_peer"`
	IRD                int           `json:"ird"`
	ORD                int           `json:"ord"`
	InlineSend         int           `json:"inline_send"`
	InlineReceive      int           `json:"inline_receive"`
	RemoteInvalidation bool          `json:"remote_invalidation"`
	CreditsGranted     int           `json:"credits_granted"`
	FPDUsSent          uint64        `json:"fpdus_sent"`
	FPDUsReceived      uint64        `json:"fpdus_received"`
	Extensions         extensionsDoc `json:"extensions"`
}

type extensionsDoc struct {
	Client        bool `json:"client"` // the client is this project's
	ImmediateData int  `json:"immediate_data"`
	Atomics       bool `json:"atomics"`
	Delegation    bool `json:"delegation"`
	Grants        int  `json:"grants"` // in force
}

// An Export is an exported path with its clients.
type Export struct {
	Path    string   `json:"path"`
	Clients []string `json:"clients"` // with their options, as in exports(5)

	// Origin is FILE:LINE, "until restart" (exports add --until-restart), or "" for an argument of
	// serve.
	Origin string `json:"origin,omitempty"`

	// Unavailable is the reason why the export cannot be served at present: its clients must try
	// again. It is "" if the export is served.
	Unavailable string `json:"unavailable,omitempty"`

	// Activity and Space are set in status. Space is nil while the export is unavailable.
	Activity *ExportActivity `json:"activity,omitempty"`
	Space    *Space          `json:"space,omitempty"`
}

type procDoc struct {
	Program   string `json:"program"`
	Procedure string `json:"procedure"`
	Calls     uint64 `json:"calls"`
	Traffic
	Seconds float64      `json:"seconds"` // sum over all calls
	Latency []latencyDoc `json:"latency"`
	Errors  []ErrorCount `json:"errors"`
}

// operationDoc counts an NFSv4 operation. A COMPOUND has several operations, and its call is
// counted again among the procedures.
type operationDoc struct {
	Operation string              `json:"operation"`
	Count     uint64              `json:"count"`
	Errors    []operationErrorDoc `json:"errors"`
}

// nfs4Doc counts the NFSv4 clients' state.
type nfs4Doc struct {
	Clients     int     `json:"clients"` // confirmed and unconfirmed
	Unconfirmed int     `json:"unconfirmed"`
	Sessions    int     `json:"sessions"`
	Opens       int     `json:"opens"`
	Locks       int     `json:"locks"`
	Delegations int     `json:"delegations"`
	Writes      int     `json:"write_delegations"`   // write delegations among them
	Granted     uint64  `json:"delegations_granted"` // since the start, like the next two
	Recalled    uint64  `json:"delegations_recalled"`
	Revoked     uint64  `json:"delegations_revoked"` // not returned in time, or the export was removed
	ReplyBytes  int64   `json:"reply_bytes"`         // cache capacity in all sessions' slots
	ReplyLimit  int64   `json:"reply_limit"`
	Recorded    int     `json:"recorded"`      // clients that can reclaim after a restart
	Failing     bool    `json:"failing"`       // clients cannot open or lock files, because they cannot be recorded
	Grace       int     `json:"grace_clients"` // clients that may still reclaim after the last restart
	GraceLeft   float64 `json:"grace_seconds"`
}

type operationErrorDoc struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

type latencyDoc struct {
	Seconds float64 `json:"le_seconds"` // upper bound; 0: none
	Calls   uint64  `json:"calls"`
}

// An ErrorCount counts the calls that failed with an error.
type ErrorCount struct {
	Name  string `json:"name"`
	Calls uint64 `json:"calls"`
}

type replayDoc struct {
	Replies   int    `json:"replies"`
	Bytes     int64  `json:"bytes"`
	Octets    int64  `json:"octets"` // older name of the same value
	Executed  uint64 `json:"executed"`
	Replayed  uint64 `json:"replayed"`
	Joined    uint64 `json:"joined"`
	Forgotten uint64 `json:"forgotten"`
}

// Discovery has the counters for --discover.
type Discovery struct {
	Address    string `json:"address"`
	Boot       string `json:"boot"` // hexadecimal
	Clients    int    `json:"clients"`
	Monitors   int    `json:"monitors"`
	Queries    uint64 `json:"queries"`
	Registered uint64 `json:"registered"`
	Watched    uint64 `json:"watched"`
	Refused    uint64 `json:"refused"`
	Dropped    uint64 `json:"dropped"`
	Notices    uint64 `json:"notices"`
	Updates    uint64 `json:"updates"`
}

// Spans counts the spans for --trace.
type Spans struct {
	Waiting int64  `json:"waiting"`
	Sent    uint64 `json:"sent"`
	Dropped uint64 `json:"dropped"`
	Failed  uint64 `json:"failed"`
}
