// Copies topics from one Kafka cluster to another exactly once with franz-go, until it is told to end (SIGTERM).
//
// Records keep partition, key, value, headers and timestamp. Each transaction on the target holds the positions on
// the source too, in a compacted topic, so that whoever copies next goes on where the last transaction ended.
// Offsets are not mapped, and groups are not translated.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	visible = 30 * time.Second      // for a new topic to be seen
	dry     = 50 * time.Millisecond // without records: the transaction is committed
)

type options struct {
	source, target, prefix, positions, id, codec string
	topics                                       []string
	batch, fetchBytes                            int
	interval, linger                             time.Duration
}

type copier struct {
	options
	reader *kgo.Client
	writer *kgo.Client
	failed atomic.Pointer[error]
	report report
}

// report is the last line that is printed. The key of a position is the topic, a slash and the partition.
type report struct {
	Records      int              `json:"records"`
	Transactions int              `json:"transactions"`
	Positions    map[string]int64 `json:"positions"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	c := &copier{options: parse()}
	// After an error nothing that is open is committed: the next process fences this one, and goes on.
	if err := c.run(ctx); err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(c.report); err != nil {
		log.Fatal(err)
	}
}

func parse() options {
	var o options
	flag.StringVar(&o.source, "source", "", "bootstrap servers of the source")
	flag.StringVar(&o.target, "target", "", "bootstrap servers of the target")
	topics := flag.String("topics", "", "topics to copy, with commas")
	flag.StringVar(&o.prefix, "prefix", "", "what names on the target begin with")
	flag.StringVar(&o.positions, "positions", "", "topic on the target that holds the positions")
	flag.StringVar(&o.id, "id", "", "transactional id")
	flag.StringVar(&o.codec, "codec", "", "compression on the target: none or lz4")
	flag.IntVar(&o.batch, "batch", 0, "records after which a transaction is committed")
	flag.IntVar(&o.fetchBytes, "fetch-bytes", 0, "most bytes of a partition in a fetch")
	flag.DurationVar(&o.interval, "interval", 0, "longest time that a transaction stays open")
	flag.DurationVar(&o.linger, "linger", 0, "how long a batch waits for more records")
	flag.Parse()
	o.topics = strings.Split(*topics, ",")
	return o
}

func (c *copier) run(ctx context.Context) error {
	if err := c.connect(); err != nil {
		return err
	}
	defer c.reader.Close()
	defer c.writer.Close()
	sources, err := kadm.NewClient(c.reader).ListTopics(ctx, c.topics...)
	if err = errors.Join(err, sources.Error()); err != nil {
		return err
	}
	if err := c.createTopics(ctx, sources); err != nil {
		return err
	}
	// Fences the process before this one. Only then the positions: none of its transactions can end any more.
	if _, _, err := c.writer.ProducerID(ctx); err != nil {
		return err
	}
	if err := c.readPositions(ctx); err != nil {
		return err
	}
	c.reader.AddConsumePartitions(c.starts(sources))
	for ctx.Err() == nil {
		if err := c.transaction(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) connect() error {
	codec := kgo.NoCompression()
	if c.codec == "lz4" {
		codec = kgo.Lz4Compression()
	}
	var wrongSource, wrongTarget error
	c.reader, wrongSource = kgo.NewClient(
		kgo.SeedBrokers(strings.Split(c.source, ",")...),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // nothing is skipped in silence
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxPartitionBytes(int32(c.fetchBytes)),
	)
	c.writer, wrongTarget = kgo.NewClient(
		kgo.SeedBrokers(strings.Split(c.target, ",")...),
		kgo.TransactionalID(c.id),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codec),
		kgo.ProducerLinger(c.linger),
		kgo.MaxBufferedRecords(500_000),
		kgo.MaxBufferedBytes(256<<20),
		// It reads the positions too, and is at their end when it has seen the last marker.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
	)
	return errors.Join(wrongSource, wrongTarget)
}

// createTopics creates what is not there yet on the target, with as many partitions as on the source.
func (c *copier) createTopics(ctx context.Context, sources kadm.TopicDetails) error {
	admin, compact := kadm.NewClient(c.writer), "compact"
	_, err := admin.CreateTopic(ctx, 1, -1, map[string]*string{"cleanup.policy": &compact}, c.positions)
	for _, topic := range sources {
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return err
		}
		_, err = admin.CreateTopic(ctx, int32(len(topic.Partitions)), -1, nil, c.prefix+topic.Topic)
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	return nil
}

// readPositions reads the topic of positions to its end.
func (c *copier) readPositions(ctx context.Context) error {
	c.report.Positions = map[string]int64{}
	end, err := c.endOfPositions(ctx)
	if err != nil {
		return err
	}
	c.writer.AddConsumePartitions(map[string]map[int32]kgo.Offset{c.positions: {0: kgo.NewOffset().AtStart()}})
	defer c.writer.RemoveConsumePartitions(map[string][]int32{c.positions: {0}})
	for next := int64(0); next < end; {
		fetches := c.writer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for r := range fetches.RecordsAll() {
			next = r.Offset + 1
			if r.Attrs.IsControl() {
				continue
			}
			if c.report.Positions[string(r.Key)], err = strconv.ParseInt(string(r.Value), 10, 64); err != nil {
				return err
			}
		}
	}
	return nil
}

// endOfPositions is the high watermark; the controller answers before the broker knows a new topic.
func (c *copier) endOfPositions(ctx context.Context) (int64, error) {
	for deadline := time.Now().Add(visible); ; time.Sleep(100 * time.Millisecond) {
		ends, err := kadm.NewClient(c.writer).ListEndOffsets(ctx, c.positions)
		err = errors.Join(err, ends.Error())
		if end, ok := ends.Lookup(c.positions, 0); ok && err == nil {
			return end.Offset, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return 0, fmt.Errorf("no end of %s: %w", c.positions, err)
		}
	}
}

// starts is where to begin: at the position, else at the beginning.
func (c *copier) starts(sources kadm.TopicDetails) map[string]map[int32]kgo.Offset {
	starts := map[string]map[int32]kgo.Offset{}
	for _, topic := range sources {
		starts[topic.Topic] = map[int32]kgo.Offset{}
		for number := range topic.Partitions {
			starts[topic.Topic][number] = kgo.NewOffset().AtStart()
			if position, ok := c.report.Positions[key(topic.Topic, number)]; ok {
				starts[topic.Topic][number] = kgo.NewOffset().At(position)
			}
		}
	}
	return starts
}

func key(topic string, partition int32) string { return fmt.Sprintf("%s/%d", topic, partition) }

// transaction waits for records, and copies until there are enough of them, it is late, or no more come.
func (c *copier) transaction(ctx context.Context) error {
	fetches := c.reader.PollFetches(ctx)
	if err := c.writer.BeginTransaction(); err != nil {
		return err
	}
	opened, copied, moved := time.Now(), 0, map[string]int64{}
	for {
		count, err := c.write(fetches, moved)
		if err != nil {
			return err
		}
		copied += count
		if count == 0 || copied >= c.batch || time.Since(opened) >= c.interval {
			return c.commit(copied, moved)
		}
		patience, cancel := context.WithTimeout(ctx, dry)
		fetches = c.reader.PollFetches(patience)
		cancel()
	}
}

// write hands records to the producer, and notes up to where.
func (c *copier) write(fetches kgo.Fetches, moved map[string]int64) (int, error) {
	for _, fault := range fetches.Errors() {
		if !errors.Is(fault.Err, context.Canceled) && !errors.Is(fault.Err, context.DeadlineExceeded) {
			return 0, fmt.Errorf("%s: %w", key(fault.Topic, fault.Partition), fault.Err)
		}
	}
	count := 0
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) == 0 {
			return
		}
		count += len(p.Records)
		// Before they are produced: the producer uses their offsets for ends of its own.
		moved[key(p.Topic, p.Partition)] = p.Records[len(p.Records)-1].Offset + 1
		name := c.prefix + p.Topic
		for _, r := range p.Records {
			r.Topic = name
			c.writer.Produce(context.Background(), r, c.delivered)
		}
	})
	return count, nil
}

func (c *copier) delivered(_ *kgo.Record, err error) {
	if err != nil {
		c.failed.CompareAndSwap(nil, &err)
	}
}

// commit ends the transaction, with the positions in it. Its context has no end: a commit is not left half done.
func (c *copier) commit(copied int, moved map[string]int64) error {
	ctx := context.Background()
	for name, position := range moved {
		value := strconv.AppendInt(nil, position, 10)
		c.writer.Produce(ctx, &kgo.Record{Topic: c.positions, Key: []byte(name), Value: value}, c.delivered)
	}
	if err := c.writer.Flush(ctx); err != nil {
		return err
	}
	if failure := c.failed.Load(); failure != nil {
		return *failure
	}
	if err := c.writer.EndTransaction(ctx, kgo.TryCommit); err != nil || copied == 0 {
		return err
	}
	c.report.Records += copied
	c.report.Transactions++
	maps.Copy(c.report.Positions, moved)
	return nil
}
