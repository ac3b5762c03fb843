package exports

// A Client is one entry behind a path: hosts, and what they may do.
type Client struct {
	Host    Host
	Options Options
}

// Everyone is the clients of an export that treats all hosts alike.
func Everyone(o Options) []Client { return []Client{{Options: o}} }

// String returns c as exports(5) writes it.
func (c Client) String() string { return c.Host.String() + "(" + c.Options.String() + ")" }
