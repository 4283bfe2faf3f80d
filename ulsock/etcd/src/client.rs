//! One member of the cluster, and what is asked of it. Every answer has a time limit, and so has the length of a message.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use tokio_stream::StreamExt;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::cause::cause;
use crate::messages::*;
use crate::settings::User;

/// For an answer.
const ANSWER: Duration = Duration::from_secs(4);
/// Of a message: etcd takes requests of 1.5 MiB, and so no key or value is longer, unless it is told otherwise.
const LONGEST: usize = 4 << 20;

/// Why a session has ended.
#[derive(Debug)]
pub enum Trouble {
    Status(Status),
    Other(String),
}

impl From<Status> for Trouble {
    fn from(status: Status) -> Trouble {
        Trouble::Status(status)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Status(status) if status.message().is_empty() => {
                write!(f, "{}", status.code().description())
            }
            Trouble::Status(status) => f.write_str(status.message()),
            Trouble::Other(why) => f.write_str(why),
        }
    }
}

impl Trouble {
    /// The answer was longer than we take.
    pub fn is_too_long(&self) -> bool {
        let codes = [Code::OutOfRange, Code::ResourceExhausted];
        matches!(self, Trouble::Status(status) if codes.contains(&status.code()))
    }
}

#[derive(Clone)]
pub struct Client {
    grpc: Grpc<Channel>,
    user: Option<User>,
    token: Option<MetadataValue<Ascii>>,
}

impl Client {
    pub async fn connect(endpoint: &Endpoint, user: Option<&User>) -> Result<Client, Trouble> {
        let channel = endpoint.connect().await;
        let channel = channel.map_err(|why| Trouble::Other(cause(&why)))?;
        let mut client = Client {
            grpc: Grpc::new(channel).max_decoding_message_size(LONGEST),
            user: user.cloned(),
            token: None,
        };
        client.authenticate().await?;
        Ok(client)
    }

    async fn authenticate(&mut self) -> Result<(), Trouble> {
        let Some(user) = &self.user else {
            return Ok(());
        };
        let request = AuthenticateRequest {
            name: user.name.clone(),
            password: user.password.clone(),
        };
        self.token = None;
        let answer = self.once(&request, "/etcdserverpb.Auth/Authenticate").await;
        let AuthenticateResponse { token } = answer?;
        let token = token.parse();
        self.token = Some(token.map_err(|_| Trouble::Other("a token that is none".to_owned()))?);
        Ok(())
    }

    pub async fn range(&mut self, request: &RangeRequest) -> Result<RangeResponse, Trouble> {
        self.ask(request, "/etcdserverpb.KV/Range").await
    }

    pub async fn change(&mut self, operations: Vec<Operation>) -> Result<(), Trouble> {
        self.change_if(Vec::new(), operations).await.map(drop)
    }

    /// `false`: it is not so, and nothing has changed.
    pub async fn change_if(
        &mut self,
        compare: Vec<Compare>,
        operations: Vec<Operation>,
    ) -> Result<bool, Trouble> {
        let operation = |request| RequestOp {
            request: Some(request),
        };
        let request = TxnRequest {
            compare,
            success: operations.into_iter().map(operation).collect(),
        };
        let answer: TxnResponse = self.ask(&request, "/etcdserverpb.KV/Txn").await?;
        Ok(answer.succeeded)
    }

    pub async fn grant(&mut self, ttl: Duration) -> Result<i64, Trouble> {
        let ttl = ttl.as_secs() as i64;
        let request = LeaseGrantRequest { ttl };
        let path = "/etcdserverpb.Lease/LeaseGrant";
        let granted: LeaseGrantResponse = self.ask(&request, path).await?;
        match granted.error.as_str() {
            "" => Ok(granted.id),
            why => Err(Trouble::Other(why.to_owned())),
        }
    }

    /// `false`: there is no such lease any more.
    pub async fn keep_alive(&mut self, lease: i64) -> Result<bool, Trouble> {
        let request = LeaseKeepAliveRequest { id: lease };
        let path = "/etcdserverpb.Lease/LeaseKeepAlive";
        let mut answers = in_time(self.stream(request, path)).await?;
        let answer: Option<LeaseKeepAliveResponse> = in_time(answers.message()).await?;
        Ok(answer.is_some_and(|answer| answer.ttl > 0))
    }

    /// All changes of a range from that revision on.
    pub async fn watch(
        &mut self,
        request: WatchCreateRequest,
    ) -> Result<Streaming<WatchResponse>, Trouble> {
        let request = WatchRequest {
            request: Some(WatchWish::Create(request)),
        };
        Ok(in_time(self.stream(request, "/etcdserverpb.Watch/Watch")).await?)
    }

    /// Tokens that are not used for some minutes are forgotten there.
    async fn ask<Q, A>(&mut self, question: &Q, path: &'static str) -> Result<A, Trouble>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        match self.once(question, path).await {
            Err(Trouble::Status(status)) if status.code() == Code::Unauthenticated => {
                self.authenticate().await?;
                self.once(question, path).await
            }
            answer => answer,
        }
    }

    async fn once<Q, A>(&mut self, question: &Q, path: &'static str) -> Result<A, Trouble>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let request = self.signed(question.clone());
        let grpc = &mut self.grpc;
        let asked = async {
            ready(grpc).await?;
            let codec: ProstCodec<Q, A> = ProstCodec::default();
            grpc.unary(request, PathAndQuery::from_static(path), codec)
                .await
        };
        Ok(in_time(asked).await?.into_inner())
    }

    /// One question that stays open for answers.
    async fn stream<Q, A>(
        &mut self,
        question: Q,
        path: &'static str,
    ) -> Result<Streaming<A>, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + 'static,
    {
        // It does not end: a watch would end with it.
        let questions = tokio_stream::once(question).chain(tokio_stream::pending());
        let mut request = self.signed(questions);
        // A member that has lost the others ends it, and does not fall silent.
        let yes = MetadataValue::from_static("true");
        request.metadata_mut().insert("hasleader", yes);
        ready(&mut self.grpc).await?;
        let codec: ProstCodec<Q, A> = ProstCodec::default();
        let path = PathAndQuery::from_static(path);
        let answers = self.grpc.streaming(request, path, codec).await?;
        Ok(answers.into_inner())
    }

    fn signed<T>(&self, what: T) -> Request<T> {
        let mut request = Request::new(what);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }
}

async fn ready(grpc: &mut Grpc<Channel>) -> Result<(), Status> {
    let ready = grpc.ready().await;
    ready.map_err(|why| Status::unavailable(cause(&why)))
}

async fn in_time<T>(asked: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let answer = tokio::time::timeout(ANSWER, asked).await;
    answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer")))
}
